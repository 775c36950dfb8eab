package main

import "strings"

// node is a line of a tree, more lines that belong to it, and what hangs below.
type node struct {
	text string
	more []string
	kids []*node
}

// add hangs a node below another, and returns it.
func (n *node) add(text string, more ...string) *node {
	kid := &node{text: text, more: more}
	n.kids = append(n.kids, kid)
	return kid
}

// write prints the tree. lead stands before the node's own line, and rest before
// all others.
func (n *node) write(print func(string), lead, rest string) {
	print(strings.TrimRight(lead+n.text, " "))
	for _, m := range n.more {
		bar := "  "
		if len(n.kids) > 0 {
			bar = "│ "
		}
		print(strings.TrimRight(rest+bar+m, " "))
	}
	for i, kid := range n.kids {
		if i == len(n.kids)-1 {
			kid.write(print, rest+"└─ ", rest+"   ")
		} else {
			kid.write(print, rest+"├─ ", rest+"│  ")
		}
	}
}
