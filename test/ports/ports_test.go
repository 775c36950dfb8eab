package ports

import "testing"

func TestFree(t *testing.T) {
	list, err := Free(20)
	if err != nil || len(list) != 20 {
		t.Fatal(list, err)
	}
	seen := map[int]bool{}
	for _, p := range list {
		if seen[p] || p < low || p >= high {
			t.Errorf("port %d of %v", p, list)
		}
		seen[p] = true
	}
}
