package main

import (
	"errors"
	"maps"
	"testing"
)

// TestResource: spans say of which machine they are, unless the environment says otherwise.
func TestResource(t *testing.T) {
	here := func() (string, error) { return "rack-7", nil }
	for _, c := range []struct {
		attributes, service string
		host                func() (string, error)
		want                map[string]string
	}{
		{"", "", here, map[string]string{"host.name": "rack-7"}},
		{"host.name=mine,service.instance.id=i,k=v", "s", here, map[string]string{"host.name": "mine", "service.instance.id": "i", "k": "v", "service.name": "s"}},
		{"", "", func() (string, error) { return "", errors.New("it has no name") }, map[string]string{}},
	} {
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", c.attributes)
		t.Setenv("OTEL_SERVICE_NAME", c.service)
		got, err := resource(c.host)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%q %q: %v, %v, want %v", c.attributes, c.service, got, err, c.want)
		}
	}
}
