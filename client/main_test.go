package client_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, append(leaks.OfServers, leaks.OfActors)...) }
