// Choose a system, sort its sentences and search in them.

const system = document.getElementById("system");
const order = document.getElementById("order");
const search = document.getElementById("search");
const sections = [...document.querySelectorAll("section")];
const KEYS = {
  size: (card) => -Math.abs(card.dataset.difference),
  better: (card) => -card.dataset.difference,
  worse: (card) => +card.dataset.difference,
  number: (card) => +card.dataset.number,
  words: (card) => -card.dataset.words,
};

system.closest("label").hidden = sections.length < 2;

function show() {
  sections.forEach((section, number) => {
    section.hidden = number !== +system.value;
  });
  const list = sections[+system.value].querySelector(".cards");
  const cards = [...list.children];
  const key = KEYS[order.value];
  cards.sort((a, b) => key(a) - key(b) || a.dataset.number - b.dataset.number);
  const wanted = search.value.trim().toLowerCase();
  for (const card of cards) {
    card.hidden = wanted !== "" && !card.textContent.toLowerCase().includes(wanted);
  }
  list.append(...cards);
  const shown = cards.filter((card) => !card.hidden).length;
  document.getElementById("count").textContent = wanted ? `${shown} of ${cards.length}` : "";
}

for (const control of [system, order]) control.addEventListener("change", show);
search.addEventListener("input", show);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
show();
