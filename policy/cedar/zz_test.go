package cedar
import ("testing";"strings";"time")
func TestZZ(t *testing.T) {
	try := func(name, one string) {
		n := MaxFile/len(one)
		if n > MaxPolicies/2 { n = MaxPolicies/2 }
		text := strings.Repeat(one+"\n", n)
		b := time.Now()
		_, err := Load([]File{{"a",[]byte(text)},{"b",[]byte(text)}}, Options{})
		e := ""
		if err != nil { e = err.Error(); if len(e) > 200 { e = e[:200] } }
		t.Log(name, len(text)*2, n*2, time.Since(b), e)
	}
	g := strings.Repeat("context.args.hasTag(\"/a\") && ", 60)
	var gs strings.Builder
	for i := range 60 { gs.WriteString("context.args.hasTag(\"/"+strings.Repeat("a",i+1)+"\") && ") }
	try("guards", "permit (principal, action, resource) when { "+g+"true };")
	try("guards2", "permit (principal, action, resource) when { "+gs.String()+"true };")
	try("guards3", "permit (principal, action, resource) when { ("+strings.Replace(gs.String()," && "," || ",-1)+"false) };")
	try("and", "permit (principal, action, resource) when { "+strings.Repeat("context.network && ", 500)+"true };")
	try("set", "permit (principal, action, resource) when { ["+strings.Repeat("1,", 900)+"1].contains(2) };")
	try("ent", "permit (principal, action, resource) when { ["+strings.Repeat("Agent::\"a\",", 400)+"Agent::\"b\"].contains(principal) };")
	try("rec", "permit (principal, action, resource) when { "+strings.Repeat("{a: ", 30)+"1"+strings.Repeat("}", 30)+" == "+strings.Repeat("{a: ", 30)+"1"+strings.Repeat("}", 30)+" };")
	try("if", "permit (principal, action, resource) when { "+strings.Repeat("if context.network then ", 300)+"true"+strings.Repeat(" else false", 300)+" };")
	try("ifc", "permit (principal, action, resource) when { "+strings.Repeat("if ", 300)+"context.network"+strings.Repeat(" then context.line else context.named", 300)+" };")
	try("like", "permit (principal, action, resource) when { context.workspace like \""+strings.Repeat("*a", 3000)+"\" };")
	try("small", "permit (principal, action, resource);")
	try("eq", "permit (principal, action, resource) when { "+strings.Repeat("resource == ", 1)+"principal };")
	try("insets", "permit (principal, action, resource) when { "+strings.Repeat("principal in [Agent::\"a\", Agent::\"b\"] || ", 150)+"false };")
}
