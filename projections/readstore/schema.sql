-- Ids are sequences of the log: of a trace's or turn's first commit. So a database
-- that is built anew has the same ones, and they are in the log's order.

CREATE TABLE state (
	one        INTEGER PRIMARY KEY CHECK (one = 1),
	version    TEXT NOT NULL,
	whole      INTEGER NOT NULL, -- 0: it has not come as far as the log yet
	next_gen   INTEGER NOT NULL, -- where reading goes on
	next_seq   INTEGER NOT NULL,
	folded_gen INTEGER NOT NULL, -- behind the last commit that was folded
	folded_seq INTEGER NOT NULL,
	folded_id  TEXT NOT NULL,    -- that commit's id
	first_seq  INTEGER NOT NULL  -- nothing before it is kept
);

-- Names of tools, principals and kinds, each once.
CREATE TABLE words (
	id   INTEGER PRIMARY KEY,
	word TEXT NOT NULL UNIQUE
);

CREATE TABLE traces (
	id       INTEGER PRIMARY KEY,
	trace    TEXT NOT NULL UNIQUE,
	turns    INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	calls    INTEGER NOT NULL,
	ends     TEXT NOT NULL, -- numbers in the order of the table of kinds
	events   INTEGER NOT NULL,
	flags    INTEGER NOT NULL, -- 1 imported, 2 newer, 4 more tools than are named
	first_at INTEGER NOT NULL, -- microseconds since 1970
	last_at  INTEGER NOT NULL,
	from_gen INTEGER NOT NULL,
	from_seq INTEGER NOT NULL,
	to_gen   INTEGER NOT NULL,
	to_seq   INTEGER NOT NULL,
	to_index INTEGER NOT NULL,
	tools    TEXT NOT NULL, -- ids of words, in the order in which they came
	docs     INTEGER NOT NULL -- how many texts were numbered
);
CREATE INDEX traces_first ON traces (first_at);
CREATE INDEX traces_last ON traces (last_at);

CREATE TABLE turns (
	id        INTEGER PRIMARY KEY,
	trace     INTEGER NOT NULL,
	turn      TEXT NOT NULL,
	who       INTEGER NOT NULL, -- principal
	submitted INTEGER NOT NULL,
	turns     INTEGER NOT NULL,
	ended     INTEGER NOT NULL,
	calls     INTEGER NOT NULL,
	ends      TEXT NOT NULL,
	events    INTEGER NOT NULL,
	flags     INTEGER NOT NULL,
	first_at  INTEGER NOT NULL,
	last_at   INTEGER NOT NULL,
	from_gen  INTEGER NOT NULL,
	from_seq  INTEGER NOT NULL,
	to_gen    INTEGER NOT NULL,
	to_seq    INTEGER NOT NULL,
	to_index  INTEGER NOT NULL,
	end       INTEGER NOT NULL, -- kind
	day       INTEGER NOT NULL, -- of its first commit, since 1970
	input     INTEGER NOT NULL,
	output    INTEGER NOT NULL,
	open      TEXT, -- what the folds must know of it while it is open
	UNIQUE (trace, turn)
);
CREATE INDEX turns_last ON turns (to_seq);

CREATE TABLE calls (
	id       INTEGER PRIMARY KEY, -- turn << 16 | offset
	trace    INTEGER NOT NULL,
	tool     INTEGER NOT NULL,
	who      INTEGER NOT NULL,
	status   INTEGER NOT NULL,
	effects  TEXT NOT NULL,
	day      INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	retries  INTEGER NOT NULL,
	asked    INTEGER NOT NULL,
	run      INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	late     INTEGER NOT NULL,
	resolved INTEGER NOT NULL,
	undone   INTEGER NOT NULL,
	doc      INTEGER NOT NULL,
	words    BLOB -- while it is open
);
CREATE INDEX calls_tool ON calls (tool, trace, status, who);
CREATE INDEX calls_status ON calls (status, trace, tool, who);
CREATE INDEX calls_who ON calls (who, trace, tool, status);
CREATE INDEX calls_unresolved ON calls (trace, tool, who) WHERE effects = 'possible' AND resolved = 0;

-- One row an event.
CREATE TABLE moments (
	id      INTEGER PRIMARY KEY, -- sequence << 16 | index
	gen     INTEGER NOT NULL,
	trace   INTEGER NOT NULL,
	turn    INTEGER NOT NULL,
	call    INTEGER NOT NULL,
	seq     INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	kind    INTEGER NOT NULL,
	tool    INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	after   INTEGER NOT NULL,
	detail  TEXT NOT NULL
);
CREATE INDEX moments_trace ON moments (trace);

CREATE TABLE approvals (
	turn    INTEGER NOT NULL,
	call    INTEGER NOT NULL, -- offset
	pending TEXT NOT NULL,
	PRIMARY KEY (turn, call)
) WITHOUT ROWID;

CREATE TABLE damaged (
	seq INTEGER PRIMARY KEY,
	why TEXT NOT NULL
);

-- The words of calls. A row's number is trace << 22 | a number in the trace.
CREATE VIRTUAL TABLE texts USING fts5 (words, content='', contentless_delete=1, tokenize='ascii');
CREATE TABLE docs (
	id   INTEGER PRIMARY KEY,
	call INTEGER NOT NULL
);
CREATE INDEX docs_call ON docs (call);
