/** Shows the service's own document. A key that is entered lives in this page's memory only. */
window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#viewer",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: false,
  persistAuthorization: false,
  showCommonExtensions: true,
  tryItOutEnabled: true,
  // It would ask a third party's server.
  validatorUrl: null,
});
