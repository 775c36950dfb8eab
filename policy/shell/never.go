package shell

import (
	"strings"
)

// neverBy are the commands that no line may hold, by rule.
var neverBy = func() map[string]*rule {
	m := map[string]*rule{}
	for r, list := range map[*rule]string{
		ruleSuperuser: "sudo sudoedit su doas pkexec run0 runuser calife super sux gosu su-exec setpriv",
		ruleRemove:    "rm unlink shred srm wipe trash trash-put rimraf del erase",
		ruleMachine: "mkfs mke2fs mkswap mkdosfs fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard dd shutdown reboot poweroff halt init " +
			"telinit kexec swapoff hdparm badblocks",
		ruleInteractive: "vi vim vimdiff rvim rview view ex nvim gvim evim nano pico rnano emacs emacsclient ed red joe jed mg micro ne kak kakoune helix hx " +
			"sensible-editor editor less more most pg sensible-pager pager lv man info top htop btop atop iotop iftop nmon glances watch tmux " +
			"screen byobu zellij dtach abduco ssh slogin scp sftp ftp lftp ncftp tftp telnet mosh rlogin rsh mc ranger nnn dialog whiptail " +
			"lynx w3m links elinks script select expect cu minicom passwd chsh visudo vipw fzf",
		ruleNetwork: "curl wget wget2 aria2c axel http https httpie xh curlie nc ncat netcat socat ping ping6 fping dig nslookup host drill " +
			"traceroute tracepath mtr whois nmap lwp-request rclone s3cmd",
		ruleEval: "eval source . exec trap alias enable fc bind builtin complete",
	} {
		for n := range names(list) {
			m[n] = r
		}
	}
	return m
}()

var (
	shells = names("sh bash rbash zsh dash ash ksh rksh mksh pdksh lksh oksh yash posh fish csh tcsh xonsh nu elvish es rc pwsh powershell " +
		"cmd git-shell osh ysh")
	boxes = names("busybox toybox")
)

// never judges commands that no line may hold, and says whether this is one
// that it knows: also a shell or an interpreter that runs a file, which is asked about.
func (c *classifier) never(base string, args []word, piped bool) bool {
	if !c.step() {
		return true
	}
	fam := family(base)
	rest := args[1:]
	r := neverBy[base]
	if r == nil && fam != "" {
		r = neverBy[fam]
	}
	switch {
	case r != nil:
		c.add(r, args[0].text)
		if r == ruleNetwork || networks(base) {
			c.connects(base, rest)
		}
		if r == ruleSuperuser || r == ruleEval || r == ruleInteractive {
			c.hidden(rest, piped)
		}
	case shells[base] || shells[fam]:
		c.shell(args, piped)
	case version(args):
		return false
	case language(fam):
		c.interpreter(interpreters[fam], args, piped)
	case boxes[base]:
		c.box(rest, piped)
	case base == "systemctl" && anyIs(rest, "reboot", "poweroff", "halt", "kexec", "rescue", "emergency", "suspend", "hibernate"):
		c.add(ruleMachine, args[0].text)
	case base == "git":
		return c.gitNever(rest)
	case base == "find":
		c.findNever(rest, piped)
		return false
	default:
		return false
	}
	return true
}

func language(fam string) bool {
	_, ok := interpreters[fam]
	return ok
}

func anyIs(args []word, texts ...string) bool {
	for _, w := range args {
		for _, t := range texts {
			if w.is(t) {
				return true
			}
		}
	}
	return false
}

// box judges the command inside a program that is many programs.
func (c *classifier) box(args []word, piped bool) {
	c.add(ruleWrapper, "busybox")
	if len(args) > 0 {
		c.simple(args, piped)
	}
}

// shell judges a shell within the line. With a script's name it is a program
// like any other; anything else would hide commands.
func (c *classifier) shell(args []word, piped bool) {
	if piped {
		c.add(rulePipeShell, args[0].text)
		return
	}
	for i := 1; i < len(args); i++ {
		w := args[i]
		switch {
		case w.opaque:
			c.add(ruleShell, args[0].text)
			return
		case w.is("-O") || w.is("-o") || w.is("+O") || w.is("+o"):
			i++
		case w.is("--rcfile") || w.is("--init-file") || w.is("-") || strings.HasPrefix(w.text, "/dev/") || strings.HasPrefix(w.text, "/proc/"):
			c.add(ruleShell, args[0].text)
			return
		case strings.HasPrefix(w.text, "--") && len(w.text) > 2:
		case w.flag() || strings.HasPrefix(w.text, "+"):
			if strings.ContainsAny(w.text, "csiCSI") {
				c.add(ruleShell, args[0].text)
				return
			}
		case w.text == "--" && i+1 < len(args):
		default:
			c.add(ruleScript, args[0].text)
			c.operandsOf(args[i : i+1])
			return
		}
	}
	c.add(ruleShell, args[0].text)
}
