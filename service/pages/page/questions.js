// The questions that one scenario answers, and where REST takes them. `without` are the blocks of the scenario that a
// question leaves out, as its answer brings its own.

export const QUESTIONS = {
  answer: { path: "v1/sizings", of: (scenario) => scenario },
  requirements: { path: "v1/requirements", of: (scenario) => scenario },
  layouts: { path: "v1/layouts", without: ["parallelism"], of: layouts },
  offers: { path: "v1/decisions", without: ["storage", "costs"], of: decision },
  techniques: { path: "v1/techniques", of: (scenario) => ({ scenario }) },
  simulation: { path: "v1/simulations", of: (scenario) => ({ scenario }) },
};

/** The scenario without degrees: they are what the search finds. */
function layouts(scenario) {
  return { scenario: rest(scenario, QUESTIONS.layouts) };
}

/** The purchase for the scenario, whose own storage and prices the offers take the place of. */
function decision(scenario, purchase) {
  const offers = purchase.offers.map((offer) => ({ ...offer, prices: offer.prices?.filter(hasAmount) }));
  return { ...purchase, offers, workloads: [{ name: "the run", scenario: rest(scenario, QUESTIONS.offers) }] };
}

function rest(scenario, { without }) {
  return Object.fromEntries(Object.entries(scenario).filter(([block]) => !without.includes(block)));
}

function hasAmount(price) {
  return "amount" in price;
}

/** The prices that an answer leaves out, each with its field and a sentence. */
export function pricesLeftOut({ question, purchase }) {
  if (question !== "offers") return [];
  return purchase.offers.flatMap(({ prices = [] }, offer) =>
    prices.flatMap((price, index) =>
      hasAmount(price) ? [] : [{ field: `offers.${offer}.prices.${index}.amount`, sentence: "A price without an amount does not count: give it, or remove the price." }],
    ),
  );
}

/** Whether a question takes the field at a path. */
export function takes({ without = [] }, path) {
  return !without.includes(path.split(".")[0]);
}
