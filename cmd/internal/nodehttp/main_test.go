package nodehttp_test

import (
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
