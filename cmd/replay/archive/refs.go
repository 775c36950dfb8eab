package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/sluice-run/sluice/events"
)

const digestPrefix = "sha256:"

// digestText is a digest as the log writes it; "" for none.
func digestText(sum []byte) string {
	if len(sum) == 0 {
		return ""
	}
	return digestPrefix + hex.EncodeToString(sum)
}

// parseDigest reads what digestText wrote.
func parseDigest(text string) (sum [sha256.Size]byte, ok bool) {
	name, ok := strings.CutPrefix(text, digestPrefix)
	if !ok || len(name) != hex.EncodedLen(len(sum)) || strings.ToLower(name) != name {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(name))
	return sum, err == nil
}

// References are the bytes outside the log that an event names.
func References(e events.Event) []events.BlobRef {
	var out []events.BlobRef
	add := func(refs ...*events.BlobRef) {
		for _, r := range refs {
			if r != nil {
				out = append(out, *r)
			}
		}
	}
	switch v := e.(type) {
	case *events.TurnSubmitted:
		for _, c := range v.Calls {
			add(c.Args.Ref, c.Extra.Ref)
		}
	case *events.Requested:
		add(v.Args.Ref)
	case *events.Approved:
		if v.Args != nil {
			add(v.Args.Ref)
		}
	case *events.Deduplicated:
		add(referencesOf(&v.Outcome.Result)...)
	case *events.Resolved:
		add(referencesOf(v.Result)...)
	case *events.Compensated:
		add(referencesOf(&v.Result)...)
	case *events.TurnCompleted:
		for i := range v.Cuts {
			add(&v.Cuts[i].Whole)
		}
	default:
		if o := events.OutcomeOf(e); o != nil {
			add(referencesOf(&o.Result)...)
		}
	}
	return out
}

func referencesOf(r *events.Result) []*events.BlobRef {
	if r == nil {
		return nil
	}
	out := []*events.BlobRef{r.Text.Ref}
	if r.Cut != nil {
		out = append(out, &r.Cut.Whole)
	}
	for i := range r.Blobs {
		out = append(out, &r.Blobs[i])
	}
	return out
}
