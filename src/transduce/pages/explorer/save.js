// Files of what is shown: a picture as SVG or PNG, or the page that holds every head.

import { html } from "./elements.js";

const SCALE = 3; // of a PNG

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still be reading
}

function fileOf({ element, words }) {
  for (const word of Object.values(words).flat()) {
    for (const { name } of [...word.attributes]) word.removeAttribute(name); // for the page alone
  }
  return new Blob([new XMLSerializer().serializeToString(element)], { type: "image/svg+xml" });
}

export function saveSvg(picture, name) {
  save(fileOf(picture), name);
}

export async function savePng(picture, name) {
  const { width, height } = picture.element.viewBox.baseVal;
  const image = new Image();
  image.src = URL.createObjectURL(fileOf(picture));
  await image.decode();
  const canvas = html("canvas");
  canvas.width = Math.round(width * SCALE);
  canvas.height = Math.round(height * SCALE);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((png) => save(png, name), "image/png");
}

// `where` answers what is asked with the page; `send` is what fetches it.
export async function saveHtml(where, asked, name, send) {
  const answer = await send(where, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(asked),
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  save(await answer.blob(), name);
}
