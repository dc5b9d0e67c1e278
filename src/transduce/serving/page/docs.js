// Draws the service's own description of itself, /openapi.json.

const paths = document.getElementById("paths");
const contents = document.getElementById("contents");

function made(tag, className, ...children) {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...children);
  return element;
}

// A schema with its references followed: {$ref: "#/components/schemas/Segment"}.
function resolved(schema, whole) {
  if (schema.$ref === undefined) return schema;
  return schema.$ref
    .slice(2)
    .split("/")
    .reduce((part, name) => part[name], whole);
}

// "Anything or nothing" is written as a choice with null: what counts is the rest.
function choices(schema, whole) {
  const several = schema.anyOf ?? [schema];
  return several.map((one) => resolved(one, whole)).filter((one) => one.type !== "null");
}

const NAMES = { integer: "whole number", string: "text", boolean: "true or false" };

function typeOf(schema, whole) {
  const named = choices(schema, whole).map((one) => {
    if (one.type === "array") return `list of ${typeOf(one.items ?? {}, whole)}`;
    return NAMES[one.type] ?? one.type ?? "anything";
  });
  return [...new Set(named)].join(" or ");
}

function boundsOf(schema, whole) {
  return choices(schema, whole).flatMap((one) => [
    ...(one.minimum === undefined ? [] : [`at least ${one.minimum}`]),
    ...(one.maximum === undefined ? [] : [`at most ${one.maximum}`]),
  ]);
}

function defaultOf(schema) {
  const given = schema.default;
  return given === undefined || given === null ? [] : [`default ${JSON.stringify(given)}`];
}

// The object whose fields are worth telling: the schema itself, or what its list is a list of.
function inner(schema, whole) {
  for (const one of choices(schema, whole)) {
    if (one.properties !== undefined) return one;
    if (one.type === "array" && one.items !== undefined) return inner(one.items, whole);
  }
  return null;
}

function drawFields(schema, whole, isAsked) {
  const list = made("ul", "fields");
  for (const [name, field] of Object.entries(schema.properties)) {
    const notes = [typeOf(field, whole), ...boundsOf(field, whole), ...defaultOf(field)];
    if (isAsked && (schema.required ?? []).includes(name)) notes.push("required");
    const item = made("li", "", made("code", "", name), made("span", "type", notes.join(", ")));
    if (field.description !== undefined) item.append(made("span", "meaning", field.description));
    const below = inner(field, whole);
    if (below !== null) item.append(drawFields(below, whole, isAsked));
    list.append(item);
  }
  return list;
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function command(path, method, operation, whole) {
  const url = `${location.origin}${path}`;
  const body = operation.requestBody?.content["application/json"];
  if (body === undefined) {
    const needed = (operation.parameters ?? []).filter((one) => one.required);
    const query = needed.map((one) => `${one.name}=…`).join("&");
    return `curl ${query === "" ? url : quoted(`${url}?${query}`)}`;
  }
  const example = JSON.stringify(resolved(body.schema, whole).example ?? {});
  return `curl ${url} -H 'Content-Type: application/json' \\\n  -d ${quoted(example)}`;
}

function drawExample(text) {
  const button = made("button", "", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it"; // the browser lets no page copy here
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return made("div", "example", made("pre", "", made("code", "", text)), button);
}

function drawParameters(parameters) {
  const list = made("ul", "fields");
  for (const one of parameters) {
    const notes = one.required ? "in the query, required" : "in the query";
    const item = made("li", "", made("code", "", one.name), made("span", "type", notes));
    if (one.description !== undefined) item.append(made("span", "meaning", one.description));
    list.append(item);
  }
  return list;
}

function drawErrors(responses) {
  const list = made("ul", "fields");
  for (const [status, response] of Object.entries(responses)) {
    if (status.startsWith("2")) continue;
    list.append(made("li", "", made("code", "", status), ` ${response.description}`));
  }
  return list;
}

function drawAnswer(response, whole) {
  const [[kind, content] = ["", {}]] = Object.entries(response.content ?? {});
  const below = inner(content.schema ?? {}, whole);
  if (below !== null) return drawFields(below, whole, false);
  return made("p", "quiet", `${response.description} ${kind}`);
}

function folded(title, content) {
  return made("details", "", made("summary", "", title), content);
}

function drawOperation(path, method, operation, whole) {
  const id = `${method}${path.replaceAll(/[^a-z]+/g, "-")}`;
  const verb = made("span", `method ${method}`, method.toUpperCase());
  const part = made("section", "operation", made("h3", "", verb, made("code", "", path)));
  part.id = id;
  for (const paragraph of (operation.description ?? operation.summary ?? "").split("\n\n")) {
    part.append(made("p", "", paragraph));
  }
  part.append(drawExample(command(path, method, operation, whole)));
  const bodies = Object.entries(operation.requestBody?.content ?? {});
  if (bodies.length > 0) {
    const kinds = bodies.map(([kind]) => kind).join(" or ");
    const schema = resolved(bodies[0][1].schema, whole);
    part.append(made("h4", "", "Request ", made("span", "type", kinds)));
    part.append(drawFields(schema, whole, true));
  }
  if ((operation.parameters ?? []).length > 0) {
    part.append(made("h4", "", "Request"), drawParameters(operation.parameters));
  }
  part.append(folded("Answer", drawAnswer(operation.responses["200"], whole)));
  const errors = drawErrors(operation.responses);
  if (errors.childElementCount > 0) part.append(folded("Errors", errors));
  const link = made("a", "", path);
  link.href = `#${id}`;
  contents.append(link);
  return part;
}

function draw(whole) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(whole.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = operation.tags?.[0] ?? "other";
      if (!groups.has(name)) groups.set(name, made("section", "", made("h2", "", titled(name))));
      groups.get(name).append(drawOperation(path, method, operation, whole));
    }
  }
  paths.replaceChildren(...groups.values());
}

function titled(name) {
  return name[0].toUpperCase() + name.slice(1);
}

try {
  draw(await (await fetch("/openapi.json")).json());
} catch {
  paths.replaceChildren(made("p", "error", "The service does not answer. Is it still running?"));
}
