// Buttons that copy a line: `data-line`. They are offered where the browser lets a page write to the clipboard.

const SAID_FOR = 2_000; // milliseconds for which a button says that it has copied

export function offerCopies(element) {
  if (!navigator.clipboard) return; // over plain HTTP from another machine
  for (const button of element.querySelectorAll("button[data-line]")) button.hidden = false;
}

// Copies the line of a button that was clicked.
export async function copyClicked(event) {
  const button = event.target.closest("button[data-line]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.line);
  button.dataset.words ??= button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = button.dataset.words), SAID_FOR);
}
