package cedar_test

import (
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

func ExampleLoad() {
	set, err := cedar.Load([]cedar.File{
		{Name: "default.cedar", Text: []byte(cedar.DefaultText())},
		{Name: "house.cedar", Text: []byte(`
			@id("house.secrets") @reason("{resource} is nobody's to open.")
			forbid (principal, action, resource in Path::"secrets");`)},
	}, cedar.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v := policy.Judge(set, policy.Request{
		Tool: "Read", Known: true, Mode: events.ModeWrite, Workspace: "/w", Args: []byte(`{"path":"/w/secrets/key"}`),
		Op: events.Operation{Class: events.OpRead, Paths: []string{"/w/secrets/key"}},
	})
	fmt.Println(v.Decision, v.Code, v.Path, v.Policies)
	fmt.Println(v.Reason)
	p := set.Find(v.Policies[0])[0]
	fmt.Printf("%s:%d\n", p.File, p.Line)

	_, err = cedar.Load([]cedar.File{{Name: "typo.cedar", Text: []byte(`@aks("Really?") permit (principal, action, resource);`)}}, cedar.Options{})
	fmt.Println(err)
	// Output:
	// deny PERMISSION_DENIED /path [house.secrets]
	// "/w/secrets/key" is nobody's to open.
	// house.cedar:2
	// the policy cannot be used
	// typo.cedar:1:2: there is no annotation @aks: those are @id, @ask, @reason, @code, @pointer, @doc; is ask meant?
}
