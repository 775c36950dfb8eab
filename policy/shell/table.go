package shell

// operands says what the operands of a command are.
type operands byte

const (
	paths   operands = iota // files, any number
	text                    // texts of no consequence
	none                    // there may be none
	one                     // one file at most: a second one would be written, and some take a later flag for it
	program                 // a program in a language that only computes, then files
	pattern                 // a pattern, unless a flag gave one, then files
)

// reader is a command that only reads, as long as it gets no other flags.
type reader struct {
	flags    flagSet
	operands operands
	loose    bool     // no flag of it does harm, known or not: a glob may become one
	follows  []string // flags by which it follows links that it meets in folders
	// check looks at what flags and operands mean; nil means at nothing more.
	check func(c *classifier, p *parsed)
}

func read(kind operands, notation string) reader {
	r := reader{flags: flags(notation + " --help --version"), operands: kind}
	r.flags.early = kind == one
	return r
}

func loose(kind operands, notation string) reader {
	r := read(kind, notation)
	r.loose, r.flags.loose = true, true
	return r
}

// apart says that short flags do not stand together, nor with their values.
func (r reader) apart() reader {
	r.flags.apart = true
	return r
}

func (r reader) following(flags ...string) reader {
	r.follows = flags
	return r
}

func (r reader) with(check func(*classifier, *parsed)) reader {
	r.check = check
	return r
}

const grepFlags = "-EFGPivwxycLlqsobHhnTUZzaIrR# e: f@ m: A: B: C: d: D: --extended-regexp --fixed-strings --basic-regexp " +
	"--perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count --color= --colour= " +
	"--files-without-match --files-with-matches --max-count: --only-matching --quiet --silent --no-messages --byte-offset " +
	"--with-filename --no-filename --label: --line-number --initial-tab --null --after-context: --before-context: " +
	"--context: --group-separator: --no-group-separator --text --binary-files: --exclude: --exclude-from@ --exclude-dir: " +
	"--include: --recursive --dereference-recursive --regexp: --file@ --null-data --line-buffered"

const rgFlags = "-abciFlLnNoPqsSuUvwxHIhp0. j: A: B: C: e: f@ g: m: t: T: r: d: M: E: --text --count --count-matches --ignore-case " +
	"--case-sensitive --smart-case --fixed-strings --files --files-with-matches --files-without-match --line-number " +
	"--no-line-number --only-matching --pcre2 --quiet --no-messages --unrestricted --multiline --multiline-dotall " +
	"--invert-match --word-regexp --line-regexp --with-filename --no-filename --heading --no-heading --null --hidden " +
	"--after-context: --before-context: --context: --regexp: --file@ --glob: --iglob: --max-count: --type: --type-not: " +
	"--type-list --replace: --max-depth: --max-columns: --encoding: --color: --colors: --column --no-column --json --stats --trim " +
	"--vimgrep --passthru --no-ignore --no-ignore-vcs --no-ignore-parent --no-ignore-global --no-ignore-dot --no-ignore-files " +
	"--no-ignore-exclude --no-ignore-messages --no-require-git --ignore-file-case-insensitive --glob-case-insensitive --sort: --sortr: " +
	"--sort-files --pretty --no-config --crlf --max-filesize: --follow --threads: --byte-offset --binary --line-buffered " +
	"--block-buffered --null-data --one-file-system --max-columns-preview --stop-on-nonmatch --include-zero --no-unicode --mmap " +
	"--path-separator: --engine: --auto-hybrid-regex --context-separator: --field-match-separator: --field-context-separator: " +
	"--no-context-separator --dfa-size-limit: --regex-size-limit:"

// awkReader takes its flags before the program: behind it they are names of files.
var awkReader = func() reader {
	r := read(program, "F: v:").with(awkProgram)
	r.flags.early = true
	return r
}()

const sumFlags = "-btz --binary --text --tag --zero"

// readers are the commands that may be allowed, by their exact names.
var readers = map[string]reader{
	"pwd":   read(none, "-LP"),
	"true":  loose(text, ""),
	"false": loose(text, ""),
	":":     loose(text, ""),
	"ls": loose(paths, "-1aAbBcCdfFgGhHiIklLmnNopqQrRsStuUvxXZ I: T: w: --all --almost-all --author --block-size: --color= "+
		"--directory --classify= --file-type --format: --full-time --group-directories-first --no-group --human-readable "+
		"--si --hide: --ignore: --indicator-style: --inode --literal --numeric-uid-gid --quote-name --quoting-style: "+
		"--reverse --recursive --size --sort: --time: --time-style: --width: --zero --dereference").following("-L", "--dereference"),
	"cat":  loose(paths, "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting"),
	"head": loose(paths, "-qvz# c: n: --bytes: --lines: --quiet --silent --verbose --zero-terminated"),
	"tail": loose(paths, "-qvz# c: n: --bytes: --lines: --quiet --silent --verbose --zero-terminated"),
	"wc":   loose(paths, "-cmlLw --bytes --chars --lines --max-line-length --words --total:"),
	"stat": loose(paths, "-LtfZ c: --dereference --file-system --format: --printf: --terse"),
	"file": read(paths, "-bihLNk0 --brief --mime --mime-type --mime-encoding --no-dereference --dereference --print0 --keep-going"),
	"du": loose(paths, "-0abcDhHklLmPsSx B: d: t: --all --apparent-size --block-size: --bytes --total --dereference "+
		"--max-depth: --human-readable --inodes --count-links --null --separate-dirs --si --summarize --threshold: --time= "+
		"--time-style: --exclude: --one-file-system").following("-L", "--dereference"),
	"df": read(paths, "-ahHiklPT B: t: x: --all --block-size: --human-readable --si --inodes --local --portability "+
		"--output= --total --type: --print-type --exclude-type:"),
	"date":     read(text, "-uR I= d: r@ --date: --iso-8601= --reference@ --rfc-3339: --rfc-email --utc --universal").with(dateFormat),
	"basename": loose(text, "-az s: --multiple --suffix: --zero"),
	"dirname":  loose(text, "-z --zero"),
	"realpath": read(paths, "-eEmLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip "+
		"--no-symlinks --zero --relative-to@ --relative-base@"),
	"readlink": read(paths, "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --zero"),

	"cut": loose(paths, "-nsz b: c: d: f: --bytes: --characters: --delimiter: --fields: --complement --only-delimited "+
		"--output-delimiter: --zero-terminated"),
	"tr":       loose(text, "-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
	"nl":       read(paths, "-p b: d: f: h: i: l: n: s: v: w: --body-numbering: --number-format: --number-separator: --number-width:"),
	"tac":      read(paths, "-br s: --before --regex --separator:"),
	"rev":      loose(paths, ""),
	"column":   read(paths, "-tnxeJ c: s: o: N: O: R: H: --table --separator: --output-separator: --table-columns: --json"),
	"fold":     loose(paths, "-bcs w: --bytes --spaces --width:"),
	"paste":    read(paths, "-sz d: --serial --delimiters: --zero-terminated"),
	"join":     read(paths, "-iz 1: 2: a: e: j: o: t: v: --ignore-case --header --check-order --nocheck-order --zero-terminated"),
	"comm":     read(paths, "-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated"),
	"expand":   read(paths, "-i t: --initial --tabs:"),
	"unexpand": read(paths, "-a t: --all --first-only --tabs:"),
	"sort": read(paths, "-bcCdfghiMmnRrsuVz k: t: --ignore-leading-blanks --check= --dictionary-order --ignore-case "+
		"--general-numeric-sort --human-numeric-sort --month-sort --numeric-sort --random-sort --reverse --sort: --stable "+
		"--unique --version-sort --zero-terminated --key: --field-separator: --merge"),
	"uniq": read(one, "-cdDiuz f: s: w: --count --repeated --all-repeated= --skip-fields: --group= --ignore-case "+
		"--skip-chars: --unique --zero-terminated --check-chars:"),
	"diff": read(paths, "-abBcdeEiNnpqrsTtuwyZ C: F: I: U: W: x: --brief --report-identical-files --context= --unified= --ed --rcs "+
		"--side-by-side --width: --left-column --suppress-common-lines --show-c-function --show-function-line: --label: "+
		"--expand-tabs --initial-tab --recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case "+
		"--exclude: --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space "+
		"--ignore-blank-lines --ignore-matching-lines: --text --strip-trailing-cr --minimal --speed-large-files --color=").
		following("-r", "--recursive"),
	"cmp":       read(paths, "-blsn i: n: --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent"),
	"md5sum":    loose(paths, sumFlags),
	"sha1sum":   loose(paths, sumFlags),
	"sha224sum": loose(paths, sumFlags),
	"sha256sum": loose(paths, sumFlags),
	"sha384sum": loose(paths, sumFlags),
	"sha512sum": loose(paths, sumFlags),
	"b2sum":     read(paths, sumFlags+" l: --length:"),
	"cksum":     read(paths, ""),
	"sum":       read(paths, "-rs --sysv"),
	"base64":    read(paths, "-di w: --decode --ignore-garbage --wrap:"),
	"od":        read(paths, "-abcdfiloxsv A: j: N: t: w= --address-radix: --skip-bytes: --read-bytes: --format: --output-duplicates --width="),
	"hexdump":   read(paths, "-bcCdovx n: s: --canonical --length: --skip: --no-squeezing"),
	"xxd":       read(one, "-abeiEpu c: g: l: o: s:").apart(),
	"strings":   read(paths, "-af n: t: e: --all --print-file-name --bytes: --radix: --encoding:").with(noResponse),

	"grep":  loose(pattern, grepFlags).following("-R", "--dereference-recursive"),
	"egrep": loose(pattern, grepFlags).following("-R", "--dereference-recursive"),
	"fgrep": loose(pattern, grepFlags).following("-R", "--dereference-recursive"),
	"rg":    read(pattern, rgFlags).following("-L", "--follow").with(globs),
	"tree": read(paths, "-adfilxpsugDhFQNqrtcUvSCnAJX L: P: I: --noreport --dirsfirst --filesfirst --prune --du --si --inodes --device "+
		"--sort: --gitignore --matchdirs --ignore-case --charset: --filelimit: --timefmt:").apart().following("-l"),
	"jq": read(program, "-acCehjMnrRsS --compact-output --null-input --raw-output --raw-input --join-output --ascii-output "+
		"--slurp --sort-keys --color-output --monochrome-output --tab --indent: --exit-status --seq --stream --arg% --argjson%").with(jqFilter),
	"awk":      awkReader,
	"gawk":     awkReader,
	"mawk":     awkReader,
	"nawk":     awkReader,
	"seq":      read(text, "-w f: s: --equal-width --format: --separator:"),
	"expr":     loose(text, ""),
	"sleep":    read(text, ""),
	"nproc":    read(none, "--all --ignore:"),
	"which":    loose(text, "-as --all"),
	"type":     loose(text, "-afptP"),
	"cd":       read(one, "-LPe").with(folder),
	"wait":     read(none, ""),
	"exit":     read(text, ""),
	"break":    read(text, "").with(numbers),
	"continue": read(text, "").with(numbers),
	"echo":     {}, // those without flags are judged in operands.go
	"printf":   {},
	"test":     {},
	"[":        {},
	"find":     {},
	"sed":      {},
	"git":      {},
}
