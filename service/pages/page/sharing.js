// The sharing links of one saved scenario: made, copied, withdrawn.

import { element } from "./dom.js";
import { listing, moment } from "./listing.js";
import { deleted, sent, stored } from "./token.js";

const TERMS = { "1d": "for a day", "30d": "for 30 days", "365d": "for a year", "": "until it is withdrawn" };

/** What shows and changes the sharing links of a scenario; `made` is one whose key is still to be seen. */
export async function sharing(scenario, place, page, made) {
  const root = `v1/scenarios/${scenario.id}/links`;
  const again = (latest) => sharing(scenario, place, page, latest);
  const links = await stored(root);
  const shown = [
    element("h3", {}, `Share ${scenario.name}`),
    element("p", {}, "Who has a link reads this scenario and its report without a token, and nothing else."),
    form(root, again, page),
    ...(made ? address(made, page) : []),
    links.length ? listing("Its links", COLUMNS, links.map((link) => row(root, link, again, page))) : "",
  ];
  place.replaceChildren(...shown.filter(Boolean));
  place.scrollIntoView({ block: "nearest" });
}

const COLUMNS = [{ label: "Made" }, { label: "By", kind: "words" }, { label: "Ends" }, { label: "", kind: "actions" }];

function row(root, link, again, { attempt, said }) {
  const withdraw = () => attempt(async () => {
    await deleted(`${root}/${link.id}`);
    said("The link is withdrawn.");
    await again();
  });
  return [
    moment(link.created_at),
    link.made_by,
    link.expires_at ? moment(link.expires_at) : "when withdrawn",
    element("button", { type: "button", onclick: withdraw }, "Withdraw"),
  ];
}

function form(root, again, { attempt }) {
  const options = Object.entries(TERMS).map(([value, label]) => element("option", { value, selected: value === "30d" }, label));
  const term = element("select", { "aria-label": "How long the link holds" }, options);
  const onsubmit = (event) => {
    event.preventDefault();
    attempt(async () => again(await sent("POST", root, { valid_seconds: term.value || null })));
  };
  return element("form", { onsubmit }, element("div", { class: "line" }, term, element("button", { type: "submit" }, "Make a link")));
}

function address({ page: path }, { said }) {
  const link = new URL(`.${path}`, document.baseURI).href;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(link);
      said("The link is copied.");
    } catch {
      shown.select();
    }
  };
  const shown = element("input", { readonly: true, value: link, "aria-label": "The new link" });
  const button = element("button", { type: "button", onclick: copy }, "Copy link");
  return [element("p", {}, "The new link, shown only now:"), element("div", { class: "line" }, shown, button)];
}
