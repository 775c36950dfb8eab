package shell

import "strings"

var findTests = func() map[string]int {
	m := map[string]int{}
	for n := range names("-print -print0 -prune -quit -ls -empty -follow -depth -d -mount -xdev -readable -writable -executable " +
		"-true -false -nouser -nogroup -daystart -noleaf -warn -nowarn -not -a -and -o -or -noignore_readdir_race " +
		"-ignore_readdir_race -H -L -P ! ( ) ,") {
		m[n] = 0
	}
	for n := range names("-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname -type -xtype " +
		"-maxdepth -mindepth -size -mtime -mmin -ctime -cmin -atime -amin -used -perm -user -group -uid -gid -links -inum -fstype -printf -newermt -newerat -newerct -newerBt") {
		m[n] = 1
	}
	for n := range names("-newer -anewer -cnewer -samefile") {
		m[n] = 2 // one file's name
	}
	return m
}()

// find allows what looks and prints.
func (c *classifier) find(args []word) {
	start := true
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w.glob && (w.free || !start) {
			c.add(ruleExpansion, w.text)
			return
		}
		expression := w.text != "" && strings.ContainsRune("-(),!", rune(w.text[0]))
		if !expression {
			if !start {
				c.add(ruleFlag, w.text)
				return
			}
			c.path(w.text)
			continue
		}
		takes, known := findTests[w.text]
		if !known {
			c.add(ruleFind, w.text)
			return
		}
		c.follows = c.follows || w.text == "-L" || w.text == "-follow"
		start = start && (w.text == "-H" || w.text == "-L" || w.text == "-P")
		if takes == 0 {
			continue
		}
		if i++; i == len(args) {
			c.add(ruleFlag, w.text)
			return
		}
		if !args[i].plain() {
			c.add(ruleExpansion, args[i].text)
			return
		}
		if takes == 2 {
			c.path(args[i].text)
		}
	}
}

// findNever judges what find would run or remove.
func (c *classifier) findNever(args []word, piped bool) {
	for i := 0; i < len(args); i++ {
		switch args[i].text {
		case "-delete":
			c.add(ruleRemove, "find -delete")
		case "-exec", "-execdir", "-ok", "-okdir":
			from := i + 1
			for i++; i < len(args) && !args[i].is(";") && !args[i].is("+"); i++ {
				continue
			}
			if from < i {
				c.simple(args[from:i], piped)
			}
		}
	}
}
