const withHeading = (Info, { React }) => (props) =>
  React.createElement("div", {}, React.createElement(Info, props), React.createElement("h2", { className: "operations" }, "Operations"));

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  syntaxHighlight: false, // its colours are below the limits of contrast
  plugins: [
    // A link within a button is reached by no keyboard; the button opens the same operation and puts it into the address.
    { wrapComponents: { DeepLink: (_, { React }) => ({ text }) => React.createElement("span", {}, text) } },
    { wrapComponents: { InfoContainer: withHeading } },
  ],
});
