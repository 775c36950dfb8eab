package gateway

import "net/http"

// errNoWorkers says that the node does not hear workers.
var errNoWorkers = problem(http.StatusNotFound, "no-workers", "There are no workers here", "this node does not hear workers",
	"start it with --remote-tools")

// getWorkers is GET /v1/workers: the tools of workers, and who serves them.
func (a *API) getWorkers(w http.ResponseWriter, _ *http.Request) error {
	if a.workers == nil {
		return errNoWorkers
	}
	ok(w, a.workers())
	return nil
}
