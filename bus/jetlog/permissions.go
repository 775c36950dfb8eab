package jetlog

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
)

// Permissions are what a user of a server may do, in the server's own terms: subjects,
// with wildcards. What is not named is refused.
type Permissions struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
}

// PermissionsOf are the smallest permissions with which a user can do what it is there
// for. Nodes share one inbox, since each of them can write all that another reads.
// Everybody else has a private one, and reaches neither the log nor JetStream.
func PermissionsOf(u User) Permissions {
	if u.Node {
		return nodePermissions()
	}
	if len(u.Tools) > 0 {
		return workerPermissions(u)
	}
	p := Permissions{
		Publish:   []string{bus.DoorSubject(u.Name, "*")},
		Subscribe: []string{bus.InboxOf(u.Name) + ">"},
	}
	if u.Watch {
		for _, verb := range []string{"PING", "INFO", "STATS"} {
			p.Publish = append(p.Publish, "$SRV."+verb, "$SRV."+verb+".>")
		}
		p.Subscribe = append(p.Subscribe, bus.LivePrefix+">")
	}
	return p
}

// workerPermissions are those of who serves tools: to hear what is offered of them, in the
// queue group of all workers alone, and what it is told itself; to announce them in its own
// name; to answer. Where a job is answered is random, and only who was told knows it.
func workerPermissions(u User) Permissions {
	own := bus.Token(u.Name) + ".*"
	p := Permissions{
		Publish:   []string{bus.AnswerPrefix + "*.*.*"},
		Subscribe: []string{bus.WorkerPrefix + own, bus.AllWorkers},
	}
	for _, tool := range u.Tools {
		p.Publish = append(p.Publish, bus.HerePrefix+tool+"."+own)
		p.Subscribe = append(p.Subscribe, bus.ToolSubject(tool)+" "+bus.WorkerQueue)
	}
	return p
}

// nodePermissions are those of a node, of the verbs that open the log, and of
// sluice-replay. A test has the promises of the bus kept with exactly these, and sees
// that each was needed.
func nodePermissions() Permissions {
	const api = "$JS.API."
	p := Permissions{
		Publish: []string{
			bus.EventPrefix + "*.*", bus.QueuePrefix + "*", bus.WakePrefix + "*.*", bus.TimerPrefix + "*",
			bus.LivePrefix + "*.*.*.*.*", bus.AskPrefix + "*", bus.InboxPrefix + ">",
			bus.ToolPrefix + "*", bus.WorkerPrefix + "*.*", bus.AllWorkers,
			chunkPrefix + "*", metaPrefix + "*",
			"$JS.ACK." + StreamTurns + ".>",
			api + "INFO",
			api + "CONSUMER.CREATE." + StreamRead + ".>", api + "CONSUMER.DELETE." + StreamRead + ".*", api + "CONSUMER.MSG.NEXT." + StreamRead + ".*",
			api + "CONSUMER.CREATE." + StreamTurns + ".>", api + "CONSUMER.LIST." + StreamTurns, api + "CONSUMER.MSG.NEXT." + StreamTurns + ".*",
			directGet + StreamRead, directGet + streamBlobs,
			streamGet + StreamLog, streamGet + StreamRead, streamGet + StreamTurns, streamGet + streamBlobs,
			api + "STREAM.DELETE." + StreamRead, // a mirror that stands beyond its log is made anew
			api + "STREAM.PURGE." + streamBlobs, // of the pieces of a body that was not stored whole
		},
		Subscribe: []string{
			bus.NodeInbox + ".>", bus.AskPrefix + "*", bus.LivePrefix + ">", bus.DoorPrefix + "*.*",
			bus.HerePrefix + "*.*.*", bus.AnswerPrefix + "*.*.*",
			"$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>",
		},
	}
	for _, bucket := range bus.Buckets {
		s := kvStream(bucket)
		p.Publish = append(p.Publish, cellSubject(bucket, ">"), directGet+s+".>", streamGet+s)
	}
	for _, s := range Streams() {
		p.Publish = append(p.Publish, api+"STREAM.INFO."+s, api+"STREAM.CREATE."+s, api+"STREAM.UPDATE."+s)
	}
	for _, bucket := range watchedBuckets {
		s := kvStream(bucket)
		p.Publish = append(p.Publish, api+"CONSUMER.CREATE."+s+".>", api+"CONSUMER.DELETE."+s+".*", "$JS.FC."+s+".>")
	}
	slices.Sort(p.Publish)
	return p
}

// watchedBuckets are those whose cells nodes watch; of locks, to list those of limits.
var watchedBuckets = []string{bus.BucketPresence, bus.BucketBreaker, bus.BucketLock}
