"use strict";
// The page of all routes, made from openapi.json. What comes from a server becomes text, never markup.

const LONGEST = 200000; // characters of an answer that are shown
const DEEPEST = 6; // levels of a schema that are shown

function make(tag, fields = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...inside.filter((each) => each !== null));
  return made;
}

const table = (titles, rows) =>
  make("table", {},
    make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { textContent: title })))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))))));

// --- schemas

function resolver(api) {
  return (given) => {
    let found = given ?? {};
    while (found.$ref) {
      found = found.$ref.slice(2).split("/").reduce((at, name) => at[name.replaceAll("~1", "/")], api);
    }
    return found;
  };
}

function bounds(schema) {
  const said = [];
  if (schema.minimum !== undefined || schema.maximum !== undefined) {
    said.push(`${schema.minimum ?? "…"} to ${schema.maximum ?? "…"}`);
  }
  if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.contentEncoding) said.push(schema.contentEncoding);
  return said.length ? ` (${said.join(", ")})` : "";
}

// What a schema allows, as an outline; a "?" stands behind what may be left out.
function outline(given, resolve, depth = 0) {
  const schema = resolve(given);
  const indent = "  ".repeat(depth);
  if (depth > DEEPEST) return "…";
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((each) => outline(each, resolve, depth)).join(" | ");
  const types = [schema.type ?? "any"].flat();
  return types.map((type) => {
    if (type === "array") return `[${outline(schema.items, resolve, depth)}]`;
    if (type !== "object") return type + (type === "null" ? "" : bounds(schema));
    const members = Object.entries(schema.properties ?? {}).map(([name, inner]) => {
      const maybe = (schema.required ?? []).includes(name) ? "" : "?";
      return `${indent}  ${name}${maybe}: ${outline(inner, resolve, depth + 1)}`;
    });
    if (schema.additionalProperties && schema.additionalProperties !== true) {
      members.push(`${indent}  …: ${outline(schema.additionalProperties, resolve, depth + 1)}`);
    }
    return members.length ? `{\n${members.join("\n")}\n${indent}}` : "{…}";
  }).join(" | ");
}

// A value to begin with. What may be left out is, unless nothing would remain.
function example(given, resolve, depth = 0) {
  const schema = resolve(given);
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return example(choices[0], resolve, depth);
  const type = [schema.type ?? "any"].flat()[0];
  if (type === "object") {
    const members = Object.entries(schema.properties ?? {});
    const needed = members.filter(([name]) => (schema.required ?? []).includes(name));
    const chosen = needed.length ? needed : members.slice(0, 2);
    return Object.fromEntries(depth > DEEPEST ? [] : chosen.map(([name, of]) => [name, example(of, resolve, depth + 1)]));
  }
  if (type === "array") return depth > DEEPEST ? [] : [example(schema.items, resolve, depth + 1)];
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "boolean") return false;
  return { string: schema.contentEncoding === "base64" ? "aGVsbG8=" : "text", any: "any" }[type] ?? null;
}

function exampleBody(media, schema, resolve) {
  if (media.endsWith("json") && !media.endsWith("ndjson")) return JSON.stringify(example(schema, resolve), null, 2);
  return media.includes("ndjson") ? '{"hello": "world"}\n' : media.includes("arrow") ? "" : "hello";
}

// --- one route

function schemaOf(content, resolve) {
  const shapes = new Map();
  for (const [media, { schema }] of Object.entries(content ?? {})) {
    const shape = outline(schema, resolve);
    shapes.set(shape, [...(shapes.get(shape) ?? []), media]);
  }
  const parts = [...shapes].flatMap(([shape, medias]) => [
    make("div", { className: "quiet", textContent: medias.join(", ") }),
    make("pre", { textContent: shape }),
  ]);
  return make("div", {}, ...parts);
}

function answers(operation, resolve) {
  const rows = Object.entries(operation.responses).map(([status, given]) => {
    const answer = resolve(given);
    const headers = Object.keys(answer.headers ?? {}).filter((name) => name !== "X-Request-Id");
    const said = make("div", {}, make("div", { textContent: answer.description }));
    if (headers.length) said.append(make("div", { className: "quiet", textContent: `with ${headers.join(", ")}` }));
    if (answer.content && status < 400) {
      said.append(make("details", {}, make("summary", { textContent: "what is in it" }), schemaOf(answer.content, resolve)));
    }
    return [make("code", { textContent: status }), said];
  });
  return make("section", {}, make("h3", { textContent: "Answers" }), table(["status", "what it means"], rows));
}

function parameterRows(parameters, resolve) {
  return parameters.map((parameter) => {
    const schema = resolve(parameter.schema);
    const input = make("input", { placeholder: schema.default === undefined ? "" : String(schema.default) });
    input.setAttribute("aria-label", parameter.name);
    const name = make("code", { textContent: parameter.name, className: parameter.required ? "needed" : "" });
    return { parameter, input, cells: [name, parameter.in, parameter.description ?? "", input] };
  });
}

function requestOf(method, path, rows, media, body) {
  const query = new URLSearchParams();
  const headers = { "X-Requested-With": "docs" };
  let target = path;
  for (const { parameter, input } of rows) {
    if (parameter.in === "path") {
      target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    }
    if (input.value === "") continue;
    if (parameter.in === "query") query.append(parameter.name, input.value);
    if (parameter.in === "header") headers[parameter.name] = input.value;
  }
  const search = query.size ? `?${query}` : "";
  const request = { method, headers };
  if (media && body !== "") {
    headers["Content-Type"] = media;
    request.body = body;
  }
  return { url: new URL(`.${target}${search}`, location.href).href, request };
}

function curlOf({ url, request }) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const headers = Object.entries(request.headers).filter(([name]) => name !== "X-Requested-With");
  const fields = headers.map(([name, value]) => ` -H ${quote(`${name}: ${value}`)}`).join("");
  const body = request.body === undefined ? "" : ` --data-binary ${quote(request.body)}`;
  return `curl${request.method === "GET" ? "" : ` -X ${request.method}`} ${quote(url)}${fields}${body}`;
}

async function send(asked, status, output, signal) {
  const began = performance.now();
  const answer = await fetch(asked.url, { ...asked.request, signal, cache: "no-store" });
  status.textContent = `${answer.status} ${answer.statusText} after ${Math.round(performance.now() - began)} ms`;
  const head = [...answer.headers].map(([name, value]) => `${name}: ${value}\n`).join("");
  output.textContent = `${head}\n`;
  const [reader, decoder] = [answer.body?.getReader(), new TextDecoder()];
  for (let read = await reader?.read(); read && !read.done; read = await reader.read()) {
    output.append(decoder.decode(read.value, { stream: true }));
    if (output.textContent.length > LONGEST) {
      output.textContent = `${output.textContent.slice(0, LONGEST)}\n… and more, which is not shown`;
      await reader.cancel();
    }
  }
}

function trial(method, path, operation, rows, resolve) {
  const content = operation.requestBody?.content ?? {};
  const medias = make("select", {}, ...Object.keys(content).map((media) => make("option", { textContent: media })));
  medias.setAttribute("aria-label", "Content-Type");
  const body = make("textarea", { spellcheck: false });
  body.setAttribute("aria-label", "Body");
  const fill = () => (body.value = exampleBody(medias.value, content[medias.value]?.schema, resolve));
  medias.addEventListener("change", fill);
  fill();
  if (operation.requestBody && !operation.requestBody.required) body.value = "";
  const [go, stop] = [make("button", { className: "send", textContent: "Send" }), make("button", { textContent: "Stop", hidden: true })];
  const [status, line] = [make("span", { className: "quiet" }), make("pre", { hidden: true })];
  const output = make("pre", { hidden: true });
  go.addEventListener("click", async () => {
    const ending = new AbortController();
    stop.onclick = () => ending.abort();
    const asked = requestOf(method, path, rows, operation.requestBody && medias.value, body.value);
    line.textContent = curlOf(asked);
    output.textContent = status.textContent = "";
    [go.disabled, stop.hidden, line.hidden, output.hidden] = [true, false, false, false];
    try {
      await send(asked, status, output, ending.signal);
    } catch (error) {
      status.textContent += ending.signal.aborted ? " stopped" : ` no answer: ${error.message}`;
    }
    [go.disabled, stop.hidden] = [false, true];
  });
  const part = make("section", {}, make("h3", { textContent: "Try it" }));
  if (operation.requestBody) {
    const shape = make("details", {}, make("summary", { textContent: "what may be in it" }), schemaOf(content, resolve));
    const needed = operation.requestBody.required ? "" : " It may be left out.";
    const about = make("p", { className: "quiet", textContent: `${operation.requestBody.description ?? ""}${needed}` });
    part.append(make("div", { className: "row" }, make("span", { textContent: "Body" }), medias), about, body, shape);
  }
  part.append(make("div", { className: "row" }, go, stop, status), line, output);
  return part;
}

function route(method, path, operation, resolve) {
  const summary = make("summary", {},
    make("span", { className: `method ${method}`, textContent: method.toUpperCase() }),
    make("span", { className: "path", textContent: path }),
    make("span", { className: "says", textContent: operation.summary }));
  const shown = make("details", { className: "route", id: operation.operationId }, summary);
  // A route is made when it is opened: there are many.
  shown.addEventListener("toggle", () => {
    if (shown.childElementCount > 1) return;
    const rows = parameterRows(operation.parameters ?? [], resolve);
    const inside = make("div", {}, operation.description ? make("p", { textContent: operation.description }) : null);
    if (rows.length) {
      inside.append(make("h3", { textContent: "Parameters" }),
        table(["name", "in", "what it says", "value"], rows.map(({ cells }) => cells)));
    }
    inside.append(trial(method.toUpperCase(), path, operation, rows, resolve), answers(operation, resolve));
    shown.append(inside);
  });
  return { shown, text: `${method} ${path} ${operation.operationId} ${operation.summary}`.toLowerCase() };
}

// --- the page

function show(api) {
  const resolve = resolver(api);
  const main = document.getElementById("routes");
  const filter = document.getElementById("filter");
  const all = Object.entries(api.paths).flatMap(([path, of]) => Object.entries(of).map(([method, each]) => [method, path, each]));
  document.getElementById("about").textContent = `${api.info.description} ${all.length} routes.`;
  const tags = api.tags.map(({ name }) => {
    const routes = all.filter(([, , each]) => each.tags.includes(name)).map((each) => route(...each, resolve));
    return { routes, part: make("section", {}, make("h2", { textContent: name }), ...routes.map(({ shown }) => shown)) };
  });
  main.replaceChildren(...tags.map(({ part }) => part));
  const sift = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const { routes, part } of tags) {
      for (const each of routes) each.shown.hidden = !words.every((word) => each.text.includes(word));
      part.hidden = routes.every(({ shown }) => shown.hidden);
    }
  };
  filter.addEventListener("input", sift);
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named?.matches("details.route")) {
    named.open = true;
    named.scrollIntoView();
  }
}

fetch("openapi.json").then((answer) => answer.json()).then(show, (error) => {
  document.getElementById("routes").textContent = `The routes cannot be shown: ${error.message}`;
});
