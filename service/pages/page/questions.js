// The questions that one scenario answers, and where REST takes them.

export const QUESTIONS = {
  answer: { label: "Answer", path: "v1/sizings", of: (scenario) => scenario },
  requirements: { label: "To buy", path: "v1/requirements", of: (scenario) => scenario },
  layouts: { label: "Layouts", path: "v1/layouts", of: (scenario) => ({ scenario: laidOpen(scenario) }) },
  offers: { label: "Offers", path: "v1/decisions", of: (scenario, purchase) => decision(scenario, purchase) },
  techniques: { label: "Techniques", path: "v1/techniques", of: (scenario) => ({ scenario }) },
  simulation: { label: "Simulation", path: "v1/simulations", of: (scenario) => ({ scenario }) },
};

/** The purchase for the scenario, whose own storage and prices the offers take the place of. */
function decision({ storage, costs, ...scenario }, purchase) {
  return { ...purchase, workloads: [{ name: "the run", scenario }] };
}

/** The scenario without degrees: they are what the search finds. */
function laidOpen({ parallelism, ...rest }) {
  return rest;
}
