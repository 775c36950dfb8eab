package gateway

import (
	"net/http"

	"github.com/sluice-run/sluice/schemas"
)

const openAPIRoute = "GET /openapi.json"

// getOpenAPI is GET /openapi.json: the description of this door. It is made from the types
// that the handlers read and write, and a test holds the handlers to it.
func (a *API) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	body, err := schemas.Files.ReadFile("openapi.json")
	if err == nil && !unchanged(w, r, tagOf(body)) {
		writeBody(w, http.StatusOK, "application/json", body)
	}
	return err
}
