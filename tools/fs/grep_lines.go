package fs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
)

// span is a run of neighbouring lines, first to last, that match.
type span struct{ first, last int }

// matchedLines is a file in lines, and the ones that match.
type matchedLines struct {
	lines   [][]byte
	spans   []span
	matches int // where matches may span lines
}

// lines finds the lines of content that match, or returns ctx's error.
func (s *search) lines(ctx context.Context, content []byte) (matchedLines, error) {
	if s.args.Multiline {
		return s.acrossLines(content), nil
	}
	if !s.hopeful(content) {
		return matchedLines{}, nil
	}
	m := matchedLines{lines: splitLines(content)}
	since := 0 // bytes matched since the last look at ctx
	for i, line := range m.lines {
		if since += len(line) + 1; since > chunk {
			if err := ctx.Err(); err != nil {
				return matchedLines{}, err
			}
			since = 0
		}
		if s.re.Match(line) {
			m.spans = append(m.spans, span{i, i})
		}
	}
	return m, nil
}

// hopeful is a quick look: a literal that every match begins with must be there.
func (s *search) hopeful(content []byte) bool {
	prefix, _ := s.re.LiteralPrefix()
	return prefix == "" || bytes.Contains(content, []byte(prefix))
}

func (s *search) acrossLines(content []byte) matchedLines {
	// Each match may look at all that is left before it is found.
	most := min(maxMatches+1, s.work/s.size/max(len(content), 1)+1)
	if s.args.OutputMode == modeFiles {
		most = 1
	}
	found := s.re.FindAllIndex(content, most)
	if len(found) == 0 {
		return matchedLines{}
	}
	s.stopped = s.stopped || len(found) == most && most > 1
	m := matchedLines{lines: splitLines(content), matches: len(found)}
	if len(m.lines) == 0 {
		return matchedLines{} // an empty file has no line to show
	}
	line, start := 0, 0 // the line that position start begins
	at := func(pos int) int {
		for line < len(m.lines)-1 {
			next := start + bytes.IndexByte(content[start:], '\n') + 1
			if next > pos {
				break
			}
			line, start = line+1, next
		}
		return line
	}
	for _, f := range found {
		first := at(f[0])
		m.spans = append(m.spans, span{first, at(max(f[0], f[1]-1))})
	}
	return m
}

// splitLines are the lines of content, without their ends.
func splitLines(content []byte) [][]byte {
	lines := bytes.Split(bytes.TrimPrefix(content, bom), []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	for i, l := range lines {
		lines[i] = bytes.TrimSuffix(l, []byte("\r"))
	}
	return lines
}

// matched is how many lines match, or how many matches there are where they may span lines.
func (m matchedLines) matched() int {
	if m.matches > 0 {
		return m.matches
	}
	return len(m.spans)
}

// show tells the lines that match as path:number:text, and those around them
// as path-number-text, with -- where lines were left out.
func (m matchedLines) show(name string, before, after int, add func(string)) {
	next := 0 // first line that was not shown
	for i, sp := range m.spans {
		from, to := max(sp.first-before, next), min(sp.last+after, len(m.lines)-1)
		if i+1 < len(m.spans) {
			to = min(to, max(sp.last, m.spans[i+1].first-1))
		}
		if from > next && next > 0 && before+after > 0 {
			add("--")
		}
		for n := from; n <= to; n++ {
			sign := "-"
			if n >= sp.first && n <= sp.last {
				sign = ":"
			}
			text := bytes.ToValidUTF8(m.lines[n][:min(len(m.lines[n]), maxLine)], []byte("\ufffd"))
			add(fmt.Sprintf("%s%s%d%s%s", name, sign, n+1, sign, shownLine(text, int64(max(len(text), len(m.lines[n]))))))
		}
		next = max(next, to+1)
	}
}

// readAll reads a file of about size bytes, and not more than most and one.
func readAll(r io.Reader, size, most int64) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, min(size, most)+bytes.MinRead))
	_, err := out.ReadFrom(io.LimitReader(r, most+1))
	return out.Bytes(), err
}

func fitsAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

func typeNames() []string { return slices.Sorted(maps.Keys(fileTypes)) }

// fileTypes are the names of languages and the files that are theirs.
var fileTypes = map[string][]string{
	"c":        {"*.c", "*.h"},
	"cpp":      {"*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp", "*.hxx", "*.h", "*.inl"},
	"csharp":   {"*.cs"},
	"css":      {"*.css", "*.scss", "*.sass", "*.less"},
	"docker":   {"Dockerfile", "*.dockerfile", "Dockerfile.*"},
	"elixir":   {"*.ex", "*.exs"},
	"go":       {"*.go"},
	"haskell":  {"*.hs", "*.lhs"},
	"html":     {"*.html", "*.htm", "*.xhtml"},
	"java":     {"*.java"},
	"js":       {"*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"},
	"json":     {"*.json", "*.jsonl", "*.jsonc"},
	"kotlin":   {"*.kt", "*.kts"},
	"lua":      {"*.lua"},
	"make":     {"Makefile", "makefile", "GNUmakefile", "*.mk"},
	"markdown": {"*.md", "*.mdx", "*.markdown"},
	"md":       {"*.md", "*.mdx", "*.markdown"},
	"perl":     {"*.pl", "*.pm", "*.t"},
	"php":      {"*.php"},
	"proto":    {"*.proto"},
	"py":       {"*.py", "*.pyi"},
	"ruby":     {"*.rb", "*.gemspec", "Gemfile", "Rakefile"},
	"rust":     {"*.rs"},
	"scala":    {"*.scala", "*.sbt"},
	"sh":       {"*.sh", "*.bash", "*.zsh"},
	"sql":      {"*.sql"},
	"swift":    {"*.swift"},
	"toml":     {"*.toml"},
	"ts":       {"*.ts", "*.tsx", "*.mts", "*.cts"},
	"txt":      {"*.txt"},
	"xml":      {"*.xml", "*.xsd", "*.xsl"},
	"yaml":     {"*.yaml", "*.yml"},
	"zig":      {"*.zig"},
}
