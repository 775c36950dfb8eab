package shell

import "strings"

// caller is a program that connects, or may: how its arguments name files and addresses.
type caller struct {
	flags    flagSet
	operands func(c *classifier, operands []word)
	hosts    map[string]bool // flags whose value is an address, or several with commas
	data     map[string]bool // flags whose value may name a file behind @
	blind    map[string]bool // flags by which it connects to what the line does not show, or runs a program
}

const curlFlags = "-0123469#aBfgGhiIjJklLMnNOpqRsSvVZ A: b: c@ C: d: D@ e: E@ F: H: K@ m: o@ P: Q: r: t: T@ u: U: w: x: X: y: Y: z: " +
	"--url: --proxy: --preproxy: --socks4: --socks4a: --socks5: --socks5-hostname: --proxy1.0: --doh-url: --dns-servers: --ftp-port: " +
	"--data: --data-ascii: --data-binary: --data-raw: --data-urlencode: --json: --form: --form-string: --header: --proxy-header: --url-query: " +
	"--write-out: --cookie: --variable: --upload-file@ --output@ --output-dir@ --dump-header@ --cookie-jar@ --config@ --cert@ --cacert@ --capath@ " +
	"--crlfile@ --key@ --pubkey@ --netrc-file@ --trace@ --trace-ascii@ --stderr@ --etag-save@ --etag-compare@ --hsts@ --alt-svc@ --libcurl@ " +
	"--egd-file@ --random-file@ --unix-socket@ --abstract-unix-socket: --proxy-cert@ --proxy-key@ --proxy-cacert@ --user: --proxy-user: " +
	"--user-agent: --referer: --request: --request-target: --connect-timeout: --max-time: --retry: --retry-delay: --retry-max-time: --range: " +
	"--continue-at: --limit-rate: --rate: --speed-limit: --speed-time: --max-redirs: --max-filesize: --time-cond: --interface: --local-port: " +
	"--ciphers: --tls13-ciphers: --tls-max: --curves: --proto: --proto-default: --proto-redir: --resolve: --connect-to: --oauth2-bearer: --aws-sigv4: " +
	"--cert-type: --key-type: --pass: --pinnedpubkey: --noproxy: --keepalive-time: --expect100-timeout: --happy-eyeballs-timeout-ms: --delegation: " +
	"--engine: --parallel-max: --quote: --telnet-option: --tftp-blksize: --mail-from: --mail-rcpt: --mail-auth: --login-options: --create-file-mode: " +
	"--ftp-method: --ftp-account: --hostpubmd5: --hostpubsha256: --service-name: --krb: --help="

const wgetFlags = "-46bBcdEFghHkKLmnNpqrSvVx a@ A: B: D: e: i@ I: l: o@ O@ P@ Q: R: t: T: U: w: X: --output-document@ --output-file@ --append-output@ " +
	"--input-file@ --base: --directory-prefix@ --post-data: --post-file@ --body-data: --body-file@ --header: --user-agent: --referer: --user: --password: " +
	"--http-user: --http-password: --ftp-user: --ftp-password: --proxy-user: --proxy-password: --load-cookies@ --save-cookies@ --certificate@ " +
	"--private-key@ --ca-certificate@ --ca-directory@ --crl-file@ --tries: --timeout: --dns-timeout: --connect-timeout: --read-timeout: --wait: " +
	"--waitretry: --quota: --level: --accept: --reject: --accept-regex: --reject-regex: --domains: --exclude-domains: --include-directories: " +
	"--exclude-directories: --method: --execute: --config@ --limit-rate: --cut-dirs: --default-page: --max-redirect: --bind-address: --progress: " +
	"--secure-protocol: --ciphers: --local-encoding: --remote-encoding: --use-askpass: --hsts-file@ --warc-file@ --rejected-log@ --restrict-file-names: " +
	"--report-speed: --prefer-family: --follow-tags: --ignore-tags: --start-pos: --dns-servers:"

const httpFlags = "-bcfhjmpsvdF A: a: o@ p: P: S: --auth: --auth-type: --output@ --print: --pretty: --style: --session: --session-read-only: --timeout: --proxy: " +
	"--max-redirects: --max-headers: --verify: --cert@ --cert-key@ --ssl: --ciphers: --format-options: --response-charset: --response-mime: --raw: " +
	"--default-scheme: --boundary: --bearer: --unix-socket: --interface: --resolve:"

const (
	sshFlags = "-1246AaCfGgKkMNnqsTtVvXxYy B: b: c: D: E@ e: F@ I@ i@ J: L: l: m: O: o: P: p: Q: R: S@ W: w:"
	scpFlags = "-12346ABCOpqRrTv c: D: F@ i@ J: l: o: P: S: X:"
)

// callers are the programs whose arguments are told apart; of another one every operand is
// an address.
var callers = func() map[string]caller {
	curl := caller{
		flags: flags(curlFlags), operands: each, hosts: names("-x --url --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --proxy1.0 --doh-url --dns-servers"),
		data:  names("-d -F -H -w -b --data --data-ascii --data-binary --data-urlencode --json --form --header --proxy-header --write-out --url-query --variable"),
		blind: names("-K -P --config --ftp-port --unix-socket --abstract-unix-socket --resolve --connect-to --engine --request-target"),
	}
	wget := caller{
		flags: flags(wgetFlags), operands: each, hosts: names("-B --base --dns-servers"), blind: names("-i -e --input-file --execute --config --use-askpass"),
	}
	http := caller{flags: flags(httpFlags), operands: request, blind: names("--unix-socket --resolve --proxy")}
	ssh := caller{flags: flags(sshFlags), operands: first, hosts: names("-J -W"), blind: names("-o -F -L -D -R")}
	copies := caller{flags: flags(scpFlags), operands: remotes, hosts: names("-J"), blind: names("-o -F -S -D")}
	echo := caller{flags: flags("-46AaBbCDdfhLnOqRrUvV c: e: F: i: I: l: m: M: p: Q: s: S: t: T: w: W: --count: --interval: --timeout:"), operands: each}
	nc := caller{
		flags:    flags("-46bCdDFhklnNrStuUvz I: i: M: m: O: P: p: q: s: T: V: w: W: X: x: --proxy: --proxy-type: --proxy-auth: --source: --source-port: --wait: --idle-timeout: --delay:"),
		operands: hostAndPort, hosts: names("-x --proxy"),
	}
	m := map[string]caller{
		"curl": curl, "curlie": curl, "wget": wget, "wget2": wget, "http": http, "https": http, "httpie": http, "xh": http, "xhs": http,
		"ssh": ssh, "slogin": ssh, "scp": copies, "sftp": copies, "ping": echo, "ping6": echo, "fping": echo, "nc": nc, "ncat": nc, "netcat": nc,
		"telnet": {flags: flags("-468acdEFfKLrx b: e: k: l: n: S: X:"), operands: hostAndPort},
		"ftp":    {flags: flags("-46AadefginpRtVv"), operands: first}, "lftp": {flags: flags("-d e: c: f@ p: u:"), operands: first, blind: names("-e -c -f")},
		"ncftp": {operands: first}, "tftp": {operands: first}, "mosh": {operands: first}, "rsh": {operands: first}, "rlogin": {operands: first},
		"rsync": {
			flags:    flags("-0468abcCdEghHIikKlLmnoOpPqrRStuUvVWxXyzAFNDJ e: f: B: M: T@ --rsh: --rsync-path: --exclude: --include: --exclude-from@ --include-from@ --files-from@ --filter: --log-file@ --password-file@"),
			operands: remotes, blind: names("-e --rsh --rsync-path -M"),
		},
		"dig":   {flags: flags("-46ihmruv b: c: f@ k@ p: q: t: x: y:"), operands: query, hosts: names("-q -x"), blind: names("-f")},
		"drill": {flags: flags("-46aDhSTuxv b: c@ d@ f@ i@ k@ o: p: w@ y:"), operands: query, blind: names("-f")},
		"host":  {flags: flags("-46aACdilrsTUvVw c: m: N: p: R: t: W:"), operands: each},
		"whois": {flags: flags("-abBcdFGHIKlLmMqQrRSx h: i: p: s: t: T: v: V: g: --host: --port:"), operands: each, hosts: names("-h --host")},
		"aria2c": {
			flags:    flags("-chqvVnZ D: d@ i@ j: k: l@ m: o@ p: s: t: x: U: u: T@ M@ --dir@ --out@ --input-file@ --log@ --split: --all-proxy: --http-proxy: --https-proxy: --ftp-proxy: --header: --referer: --user-agent:"),
			operands: each, hosts: names("--all-proxy --http-proxy --https-proxy --ftp-proxy"), blind: names("-i --input-file -T -M"),
		},
		"axel":        {flags: flags("-46aekpqNvVhcU n: o@ s: S: T: H: x: U:"), operands: each},
		"lwp-request": {flags: flags("-adDeEfhPsSuUvx b: c: C: H: i: m: o: p: t:"), operands: each, hosts: names("-b -p")},
		"socat":       {flags: flags("-46dDghHsuUvVxs b: l: L@ t: T: W@ S: r@ R@"), operands: channels},
		"rclone":      {operands: stores}, "s3cmd": {operands: stores, hosts: names("--host"), flags: flags("--host: --host-bucket:")},
	}
	for _, n := range strings.Fields("traceroute tracepath mtr nmap nslookup") {
		m[n] = caller{flags: flags("-46nrvdFI p: m: q: w: f: i: c: s:"), operands: each}
	}
	return m
}()

// networks reports whether connects knows a program.
func networks(base string) bool {
	return neverBy[base] == ruleNetwork || callers[base].operands != nil
}

func callerOf(base string) caller {
	p := callers[base]
	if p.operands == nil {
		p.operands = each
	}
	return p
}

func each(c *classifier, operands []word) {
	for _, w := range operands {
		c.target(w)
	}
}

// first records the host of a program that connects to its first operand.
func first(c *classifier, operands []word) {
	each(c, operands[:min(1, len(operands))])
}

// remotes records the hosts of a program that copies from and to host:path.
func remotes(c *classifier, operands []word) {
	for _, w := range operands {
		c.remote(w)
	}
}

// hostAndPort records the operands of a program that takes a host and then ports: a number
// by itself is a port.
func hostAndPort(c *classifier, operands []word) {
	for i, w := range operands {
		if numeral(strings.ReplaceAll(w.name, "-", "")) && (i > 0 || len(operands) == 1) {
			continue
		}
		c.target(w)
	}
}

// methods are those of HTTP, in lower case.
var methods = names("get head post put patch delete options trace connect query")

// request records the address of a program that takes a method, a URL and items of the
// request, of which some are files.
func request(c *classifier, operands []word) {
	if len(operands) > 1 && methods[strings.ToLower(operands[0].name)] {
		operands = operands[1:]
	}
	first(c, operands)
	for _, w := range operands[min(1, len(operands)):] {
		if at := strings.IndexByte(w.name, '@'); at >= 0 {
			c.fileOf(w, w.name[at+1:])
		}
	}
}

// records are the words of dig that are kinds of records and classes.
var records = names("a aaaa any axfr caa cname dnskey ds https ixfr mx naptr ns nsec nsec3 ptr rrsig soa srv sshfp svcb tlsa txt in ch hs")

func query(c *classifier, operands []word) {
	for _, w := range operands {
		if !strings.HasPrefix(w.name, "+") && !records[strings.ToLower(w.name)] {
			c.target(word{text: w.text, name: strings.TrimPrefix(w.name, "@"), opaque: w.opaque, glob: w.glob})
		}
	}
}

// channels records the addresses of socat: TYPE:host:port,option=value.
func channels(c *classifier, operands []word) {
	for _, w := range operands {
		address, _, _ := strings.Cut(w.name, ",")
		for side := range strings.SplitSeq(address, "!!") {
			kind, rest, _ := strings.Cut(side, ":")
			kind = strings.ToLower(kind)
			switch {
			case strings.HasPrefix(kind, "exec"), strings.HasPrefix(kind, "system"), strings.HasPrefix(kind, "shell"), strings.HasPrefix(kind, "unix"), strings.HasPrefix(kind, "abstract"):
				c.add(ruleFlag, w.text)
			case strings.HasPrefix(kind, "open"), kind == "file", kind == "create", kind == "gopen", kind == "pipe":
				c.fileOf(w, rest)
			case rest == "" || strings.Contains(kind, "listen"):
			case strings.HasPrefix(kind, "proxy"), strings.HasPrefix(kind, "socks"):
				hop, behind, _ := strings.Cut(rest, ":")
				c.target(word{text: w.text, name: hop, opaque: w.opaque, glob: w.glob})
				c.target(word{text: w.text, name: behind, opaque: w.opaque, glob: w.glob})
			default:
				c.target(word{text: w.text, name: rest, opaque: w.opaque, glob: w.glob})
			}
		}
	}
}

// stores are the operands of programs that know their addresses by names of their own:
// one that begins with a colon holds its settings.
func stores(c *classifier, operands []word) {
	for _, w := range operands {
		switch {
		case strings.Contains(w.name, "://"):
			c.target(w)
		case strings.HasPrefix(w.name, ":"):
			c.add(ruleFlag, w.text)
		}
	}
}
