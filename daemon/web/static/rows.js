// Rows of a timeline in the browser: folds of rows, and what subagents did, as the server says. What a reader has opened
// or closed stays so while the page is open, also when its section is fetched again.

const remembered = new Map(); // key of a fold or a subagent -> whether the reader has opened it
const DETAILS = "article.run > details, article > details.children";
const keyOf = (details, card = details.closest("article")) => card.dataset.fold ?? card.dataset.call ?? card.id;

// Puts rows into a fold. `fold`: it without rows. Rows that are in different places, or that the reader looks at, stay.
export function foldRows(rows, fold) {
  const found = document.querySelector(`article.run[data-fold="${CSS.escape(fold.dataset.fold)}"]`);
  const isInside = (row) => found?.contains(row);
  const place = found?.parentElement ?? rows[0]?.parentElement;
  const runOf = (row) => row.closest("article.run");
  const isAmong = (run) => run?.parentElement === place && [...run.querySelectorAll(".run-rows > article")].every((one) => rows.includes(one));
  const isFree = (row) => (row?.parentElement === place || isAmong(runOf(row))) && row.dataset.level === "title" && !row.matches(":focus-within");
  if (!rows.every((row) => row && (isInside(row) || isFree(row)))) return;
  if (found) found.querySelector("summary").replaceChildren(...fold.querySelector("summary").childNodes);
  else rows[0].before(fold);
  const emptied = rows.map(runOf).filter((run) => run && run !== found && run !== fold);
  (found ?? fold).querySelector(".run-rows").append(...rows);
  for (const run of emptied) run.remove();
  if (!found) restore(place);
}

// Puts rows among the children of a card, by `seq`. `fresh`: their place, without rows.
export function nestRows(card, rows, fresh) {
  let place = card.querySelector(':scope > [data-slot="children"]');
  if (!place && !rows.length) return;
  if (place) place.querySelector(":scope > summary").replaceChildren(...fresh.querySelector("summary").childNodes);
  else {
    card.insertBefore((place = fresh), card.querySelector(':scope > [data-slot="turn"]'));
    restore(card);
  }
  for (const row of rows) {
    const run = row.closest(".run");
    place.insertBefore(row, [...place.children].find((one) => Number(one.dataset.seq) > Number(row.dataset.seq)) ?? null);
    if (run && !run.querySelector("article")) run.remove();
  }
}

// Opens and closes what the reader has opened or closed before.
export function restore(root) {
  if (remembered.size) for (const one of root.querySelectorAll(DETAILS)) one.open = remembered.get(keyOf(one)) ?? one.open;
}

export function remember(element) {
  element.addEventListener("click", ({ target }) => {
    const details = target.closest("summary")?.parentElement;
    if (details?.matches(DETAILS)) remembered.set(keyOf(details), !details.open);
  });
}

// Opens everything that a card is folded away in.
export function reveal(card) {
  for (let one = card?.parentElement.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
}
