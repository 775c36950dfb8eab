package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// inputWords are the flags of an answer to a tool.
type inputWords struct {
	by, note, accept string
	fields           []string
	decline, cancel  bool
}

const aboutInputs = "A tool that has begun may ask a person before it goes on: sluice-node inbox shows the questions and the fields of each form.\n" +
	"Give the fields one by one with --field, or all as a JSON object with --accept; secrets are best given by --accept - on\n" +
	"standard input. Where several things are asked, --accept takes an object with the content for each by its id (a page that\n" +
	"was visited: null; \"decline\" or \"cancel\" for one that is not given), and --field takes ID/NAME=VALUE.\n" +
	"--decline is a no, and --cancel says that there is no answer: the tool is told, and what it says then ends the call.\n" +
	"The first durable answer counts. What does not fit a form is refused, with the field, and the call waits on."

// answer is the verb that gives a tool what it has asked a person for.
func (a *app) answer() *cobra.Command {
	w := &inputWords{}
	cmd := a.answerVerb("answer TRACE/TURN/CALL[@iN]", "Answer a tool that asks a person before it can go on", aboutInputs,
		func(ctx context.Context, d approver, id gateway.ApprovalID) error {
			if id.Asking > 0 && !id.Input {
				return exit.Misused(fmt.Errorf("%s asks for a yes or a no", id), "use approve or deny; what a tool asks is named "+id.Call.String()+"@i1")
			}
			id.Input = true
			return a.answerShown(ctx, d, id, w)
		})
	f := cmd.Flags()
	f.StringVar(&w.by, "by", "", "`name` of who answers; left out: the user")
	f.StringVar(&w.note, "note", "", "a `sentence` for the record")
	f.StringVar(&w.accept, "accept", "", "the fields of the form: `JSON`, a file that holds it, or - for standard input; {} for a page that was visited")
	f.StringArrayVar(&w.fields, "field", nil, "one field, as `NAME=VALUE`; may be repeated, for a list of choices too")
	f.BoolVar(&w.decline, "decline", false, "no, to all that is asked")
	f.BoolVar(&w.cancel, "cancel", false, "there is no answer, to anything that is asked")
	return cmd
}

// answerShown answers exactly what is shown.
func (a *app) answerShown(ctx context.Context, d approver, id gateway.ApprovalID, w *inputWords) error {
	page, err := d.Approval(ctx, id)
	switch {
	case errors.Is(err, gateway.ErrNoApproval):
		return fmt.Errorf("%s: %w", id.Call, lifecycle.ErrNoInput)
	case err != nil:
		return err
	}
	if id.Asking == 0 {
		id.Asking = page.Asking // BEFORE its tool asks anew: what is shown is what is answered
	}
	given := gateway.Answering{By: me(w.by), Note: w.note}
	if err := a.fill(&given, page.Requests, w); err != nil {
		return err
	}
	out, err := d.Answer(ctx, id, given)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			gateway.Answered
			Of string `json:"of"`
		}{out, id.Call.String()})
	}
	a.print("%s\n", page.Brief())
	word := "answered"
	if out.Status == gateway.AnsweredAlready {
		word = "answered already by " + show.Short(out.By.ID, 64) + ", and that stands"
	}
	a.print("%s: %s\n", id.Call, word)
	return a.out.failed()
}

// fill puts the flags of an answer into it.
func (a *app) fill(given *gateway.Answering, requests []projections.InputShown, w *inputWords) error {
	said := 0
	for _, is := range []bool{w.accept != "", len(w.fields) > 0, w.decline, w.cancel} {
		if is {
			said++
		}
	}
	switch {
	case said != 1:
		return exit.Misused(errors.New("an answer is one of --accept, --field, --decline and --cancel"), "sluice-node inbox shows what is asked")
	case w.decline:
		given.Action = events.InputDecline
	case w.cancel:
		given.Action = events.InputCancel
	case w.accept != "":
		text, err := a.argumentsOf(w.accept)
		if err != nil {
			return err
		}
		return accepted(given, requests, text)
	default:
		return filledIn(given, requests, w.fields)
	}
	return nil
}

// accepted puts a JSON object into an answer: the content of the one thing that is
// asked, or of each by its id.
func accepted(given *gateway.Answering, requests []projections.InputShown, text string) error {
	if len(requests) < 2 {
		given.Action, given.Content = events.InputAccept, json.RawMessage(text)
		return nil
	}
	var each map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &each); err != nil {
		return exit.Misused(errors.New("--accept is no JSON object"), "give one with the content for each thing that is asked, by its id")
	}
	for _, r := range requests {
		content, ok := each[r.ID]
		if !ok {
			return exit.Misused(fmt.Errorf("--accept has nothing for %q", events.Visible(r.ID)), "give a content for each thing that is asked, by its id")
		}
		one := events.InputAnswer{ID: r.ID, Action: events.InputAccept}
		switch word := string(content); word {
		case "null":
		case `"decline"`, `"cancel"`:
			one.Action = strings.Trim(word, `"`)
		default:
			one.Content = content
		}
		given.Answers = append(given.Answers, one)
	}
	return nil
}

// filledIn makes the contents of forms of single fields.
func filledIn(given *gateway.Answering, requests []projections.InputShown, fields []string) error {
	values := make(map[string]map[string]any)
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return exit.Misused(fmt.Errorf("--field %.80q", f), "give NAME=VALUE")
		}
		r, field, err := fieldNamed(requests, name)
		if err != nil {
			return err
		}
		if values[r] == nil {
			values[r] = make(map[string]any)
		}
		if values[r][field.Name], err = valueOf(field, values[r][field.Name], value); err != nil {
			return err
		}
	}
	for _, r := range requests {
		one := events.InputAnswer{ID: r.ID, Action: events.InputAccept}
		if r.Kind == events.InputForm {
			if values[r.ID] == nil {
				values[r.ID] = map[string]any{}
			}
			one.Content, _ = json.Marshal(values[r.ID]) // texts, lists, and what was JSON before: it cannot fail
		}
		given.Answers = append(given.Answers, one)
	}
	return nil
}

// fieldNamed is the field of a name, or of a request's id and a name.
func fieldNamed(requests []projections.InputShown, name string) (request string, f lifecycle.Field, err error) {
	var known []string
	for _, r := range requests {
		for _, f := range r.Fields {
			if name == f.Name && len(requests) == 1 || name == r.ID+"/"+f.Name {
				return r.ID, f, nil
			}
			if len(requests) == 1 {
				known = append(known, f.Name)
			} else {
				known = append(known, r.ID+"/"+f.Name)
			}
		}
	}
	slices.Sort(known)
	return "", f, exit.Misused(fmt.Errorf("no field %q is asked for", show.Short(name, 80)), "there are "+show.Short(strings.Join(known, ", "), 1000))
}

// valueOf is a field's value as its form has it; before is what was given for it already.
func valueOf(f lifecycle.Field, before any, text string) (any, error) {
	list, _ := before.([]string)
	switch {
	case f.Type == lifecycle.FieldChoices:
		if text == "" {
			return append([]string{}, list...), nil
		}
		return append(list, text), nil
	case before != nil:
		return nil, exit.Misused(fmt.Errorf("--field %s is given twice", show.Short(f.Name, 80)), "give it once")
	case f.Type == lifecycle.FieldString:
		return text, nil
	case !json.Valid([]byte(text)):
		return text, nil // the form's own words say what is wrong with it
	}
	return json.RawMessage(text), nil
}

// Answer is approver's. Who answers is the door's user, whatever the answer says.
func (d *door) Answer(ctx context.Context, id gateway.ApprovalID, a gateway.Answering) (out gateway.Answered, err error) {
	type one struct {
		ID      string          `json:"id"`
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content,omitempty"`
	}
	body := struct {
		named
		Answers []one           `json:"answers,omitempty"`
		Action  string          `json:"action,omitempty"`
		Content json.RawMessage `json:"content,omitempty"`
		Note    string          `json:"note,omitempty"`
	}{named: nameAsking(gateway.ApprovalID{Call: id.Call, Asking: id.Asking}), Action: a.Action, Content: a.Content, Note: a.Note}
	for _, x := range a.Answers {
		body.Answers = append(body.Answers, one{x.ID, x.Action, x.Content})
	}
	if len(a.Content) > 0 && !json.Valid(a.Content) {
		return out, exit.Misused(errors.New("--accept is no JSON"), "give one JSON object")
	}
	_, err = d.ask(ctx, "answer", body, &out)
	return out, err
}
