package picture

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// TestContrast: texts can be read on what they stand on, and shapes told from it, on
// light and on dark backgrounds (WCAG 2.2: 4.5 for texts, 3 for shapes).
func TestContrast(t *testing.T) {
	var pairs [][2]string
	for _, c := range palette {
		switch {
		case strings.HasPrefix(c.name, "ink"):
			pairs = append(pairs, [2]string{c.name, "paper"}, [2]string{c.name, "stripe"})
		case strings.HasPrefix(c.name, "on-"):
			below := "bar-" + strings.TrimPrefix(c.name, "on-")
			if find(below) == nil {
				below = "fill-" + strings.TrimPrefix(c.name, "on-")
			}
			pairs = append(pairs, [2]string{c.name, below})
		}
	}
	pairs = append(pairs, [2]string{"ink-good", "tint-good"}, [2]string{"ink-mild", "tint-mild"}, [2]string{"ink", "tint-ask"},
		[2]string{"ink", "tint-good"}, [2]string{"ink", "tint-mild"}, [2]string{"ink-mild", "tint-good"})
	hold(t, pairs, 4.5)
	var shapes [][2]string
	for _, c := range palette {
		if strings.HasPrefix(c.name, "bar-") || strings.HasPrefix(c.name, "fill-") {
			shapes = append(shapes, [2]string{c.name, "paper"}, [2]string{c.name, "stripe"})
		}
	}
	hold(t, shapes, 3)
}

func hold(t *testing.T, pairs [][2]string, least float64) {
	t.Helper()
	for _, p := range pairs {
		a, b := find(p[0]), find(p[1])
		if a == nil || b == nil {
			t.Errorf("%v: not in the palette", p)
			continue
		}
		for _, of := range []func(*colour) string{func(c *colour) string { return c.light }, func(c *colour) string { return c.dark }} {
			if got := contrast(t, of(a), of(b)); got < least {
				t.Errorf("%s %s on %s %s: contrast %.2f, at least %.1f is wanted", p[0], of(a), p[1], of(b), got, least)
			}
		}
	}
}

func find(name string) *colour {
	for i := range palette {
		if palette[i].name == name {
			return &palette[i]
		}
	}
	return nil
}

// contrast is the ratio of two colours' luminance.
func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestLooks: whatever is told by a colour is told by another shape or word, too.
func TestLooks(t *testing.T) {
	glyphs, words := map[string]string{}, map[string]bool{}
	for _, l := range stateLooks {
		if l.glyph == "" || l.words == "" || find(l.ink) == nil || glyphs[l.glyph] != "" || words[l.words] {
			t.Errorf("state %q does not differ from %q", l.words, glyphs[l.glyph])
		}
		glyphs[l.glyph], words[l.words] = l.words, true
	}
	clear(glyphs)
	for _, l := range signLooks {
		if l.glyph == "" || l.words == "" || find(l.ink) == nil || glyphs[l.glyph] != "" {
			t.Errorf("sign %q does not differ from %q", l.words, glyphs[l.glyph])
		}
		glyphs[l.glyph] = l.words
	}
	shapes := map[[4]string]string{}
	for _, l := range kindLooks {
		pattern := ""
		if strings.HasPrefix(l.fill, "p-") {
			pattern = l.fill
		}
		shape := [4]string{pattern, l.dash, strconv.FormatFloat(l.height, 'f', -1, 64), strconv.FormatBool(l.stroke == "")}
		if l.words == "" || shapes[shape] != "" && l.fill != "f-bar-find" {
			t.Errorf("%q differs from %q by its colour alone", l.words, shapes[shape])
		}
		shapes[shape] = l.words
	}
}
