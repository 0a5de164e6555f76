// Forms. This is no module, because modules run after the page is shown, and what is sent or chosen before counts.

// Forms that change something: their address needs a signature, like everything that cannot send a header.
addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  const { LoggedOut, admitted } = await import("./origin.js");
  try {
    form.action = await admitted(form.getAttribute("action"));
    form.submit();
  } catch (error) {
    if (error instanceof LoggedOut) location.reload();
    else console.warn(error);
  }
});

// A form that is sent when one of its choices changes.
addEventListener("change", ({ target }) => {
  if (target.localName === "select" && target.form?.matches("[data-submits]")) target.form.requestSubmit();
});
