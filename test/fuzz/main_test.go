package main

import "testing"

func TestARunThatSaysNothing(t *testing.T) {
	const begin = "fuzz: elapsed: 3s, execs: 9506 (0/sec), new interesting: 0 (total: 528)\n"
	for output, want := range map[string]bool{
		begin + "--- FAIL: FuzzParse (3.16s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample/parse\t3.182s\n":                                                 true,
		begin + "--- FAIL: FuzzParse (3.16s)\n    --- FAIL: FuzzParse (0.00s)\n        parse_test.go:9: context deadline exceeded\n    \n    Failing input written to x\nFAIL\n": false,
		begin + "--- FAIL: FuzzParse (3.16s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzParse/1\nFAIL\n":                                     false,
		begin + "--- FAIL: FuzzParse (3.16s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n":                                                        false,
		"FAIL\texample/parse [build failed]\n": false,
		"":                                     false,
	} {
		if got := saysNothing(output); got != want {
			t.Errorf("%t of\n%s", got, output)
		}
	}
}
