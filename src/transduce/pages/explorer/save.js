// Saving: a picture as SVG or PNG, or the explorer as an HTML page.

import { html } from "./elements.js";

const SCALE = 3; // of a PNG

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // while the browser may still read it
}

function svgFile({ element, words }) {
  for (const word of Object.values(words).flat()) {
    // Only the page needs these.
    for (const { name } of [...word.attributes]) word.removeAttribute(name);
  }
  return new Blob([new XMLSerializer().serializeToString(element)], { type: "image/svg+xml" });
}

export function saveSvg(picture, name) {
  save(svgFile(picture), name);
}

export async function savePng(picture, name) {
  const { width, height } = picture.element.viewBox.baseVal;
  const image = new Image();
  image.src = URL.createObjectURL(svgFile(picture));
  await image.decode();
  const canvas = html("canvas");
  canvas.width = Math.round(width * SCALE);
  canvas.height = Math.round(height * SCALE);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((png) => save(png, name), "image/png");
}

// Request the page from `url` by `fetchPage`, and save it.
export async function saveHtml(url, request, name, fetchPage) {
  const response = await fetchPage(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  if (!response.ok) throw new Error((await response.json()).error);
  save(await response.blob(), name);
}
