package nodehttp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
)

// TestTokenGoesToTheNodeAlone: not to another host, not where an answer points to, and not
// to what shows another certificate.
func TestTokenGoesToTheNodeAlone(t *testing.T) {
	heard := map[string][]string{}
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			heard[name] = append(heard[name], r.Header.Get("Authorization"))
			if to := r.URL.Query().Get("to"); to != "" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}
		}
	}
	node, other := httptest.NewTLSServer(handler("node")), httptest.NewServer(handler("other"))
	defer node.Close()
	defer other.Close()
	sum := sha256.Sum256(node.Certificate().Raw)
	told := jetlog.Running{HTTP: node.URL, More: map[string]string{nodehttp.Token: "secret", nodehttp.Cert: hex.EncodeToString(sum[:])}}
	get := func(r jetlog.Running, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := nodehttp.Client(r).Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	for _, url := range []string{node.URL + "/v1/tools", node.URL + "/?to=" + other.URL, other.URL} {
		if err := get(told, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if n := strings.Join(heard["node"], ","); n != "Bearer secret,Bearer secret" {
		t.Errorf("the node has heard %q", n)
	}
	if len(heard["other"]) != 1 || heard["other"][0] != "" {
		t.Errorf("another has heard %q", heard["other"])
	}
	told.More[nodehttp.Cert] = strings.Repeat("0", 64)
	if err := get(told, node.URL); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("another certificate: %v", err)
	}
	if err := get(jetlog.Running{HTTP: other.URL}, other.URL); err != nil || heard["other"][1] != "" {
		t.Errorf("a node that asks nobody: %v, %q", err, heard["other"])
	}
}

func TestAddress(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:80": "https://127.0.0.1:80", "0.0.0.0:80": "https://127.0.0.1:80", "[::]:80": "https://[::1]:80", "[::1]:80": "https://[::1]:80", "192.0.2.1:80": "https://192.0.2.1:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		if err != nil {
			t.Fatal(err)
		}
		if got := nodehttp.Address("https", at); got != want {
			t.Errorf("%s: %s, want %s", listens, got, want)
		}
	}
}
