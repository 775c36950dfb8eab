package secrets

import (
	"slices"
	"strings"
)

// Missing are the pointers that name nothing in a call's arguments which could be
// sealed: no argument, or one that is true or false. Of one that is null or empty there
// is nothing to seal, and it is there. No arguments are the empty object; ok is false
// for any others that are no JSON object, of which nobody can tell.
func Missing(args string, pointers []string) (missing []string, ok bool) {
	switch {
	case len(pointers) == 0:
		return nil, true
	case empty(args):
		return pointers, true
	case !isObject(args):
		return nil, false
	}
	there := make(map[string]bool)
	for _, p := range pointers {
		there[p] = false
	}
	var visit func(n node)
	visit = func(n node) {
		if _, asked := there[n.path]; asked && n.path != "" && (n.kind != 't' || args[n.from] == 'n') {
			there[n.path] = true
		}
		for _, k := range n.kids {
			visit(k)
		}
	}
	visit(tree(args))
	for _, p := range pointers {
		if !there[p] {
			missing = append(missing, p)
		}
	}
	return missing, true
}

// empty says whether arguments are none, which means the empty object.
func empty(args string) bool {
	s := strings.TrimSpace(args)
	return s == "" || s == "null"
}

// covered says whether what stands at a path, or what holds it, was declared.
func covered(declared []string, path string) bool {
	return slices.ContainsFunc(declared, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

// SealedWhole are the JSON Pointers to the strings of a call's arguments that are a
// placeholder and nothing else.
func SealedWhole(args []byte) []string {
	var out []string
	if text := string(args); strings.Contains(text, placeholderOpen) && isObject(text) {
		each(text, tree(text), "", func(l leaf) {
			if l.kind == '"' && isPlaceholder(l.text) {
				out = append(out, l.path)
			}
		})
	}
	return out
}

// declaredTexts are the values at the declared pointers that are long enough to be
// looked for elsewhere, the longest first.
func declaredTexts(args string, declared []string) []string {
	if len(declared) == 0 {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	each(args, tree(args), "", func(l leaf) {
		if l.kind != 'k' && len(l.text) >= leastKnown && covered(declared, l.path) && !seen[l.text] {
			seen[l.text] = true
			out = append(out, l.text)
		}
	})
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}
