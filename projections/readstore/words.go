package readstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// mostWords bounds how many names are held in memory. A model may make up tools as
// it likes.
const mostWords = 16 << 10

// words are the ids of names, as far as they are known. Name "" has id 0, and no row.
type words struct {
	ids   map[string]int64
	names map[int64]string
}

func newWords() *words {
	return &words{ids: make(map[string]int64), names: make(map[int64]string)}
}

func (k *words) learn(id int64, name string) {
	if len(k.ids) >= mostWords {
		clear(k.ids)
		clear(k.names)
	}
	k.ids[name], k.names[id] = id, name
}

// name is the name of an id.
func (k *words) name(ctx context.Context, q querier, id int64) (string, error) {
	if id == 0 {
		return "", nil
	}
	if name, ok := k.names[id]; ok {
		return name, nil
	}
	var name string
	err := q.QueryRowContext(ctx, `SELECT word FROM words WHERE id = ?`, id).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("%w: word %d is missing", errDamaged, id)
	}
	if err == nil {
		k.learn(id, name)
	}
	return name, err
}

// find is the id of a name; ok is false where there is none.
func (k *words) find(ctx context.Context, q querier, name string) (id int64, ok bool, err error) {
	if name == "" {
		return 0, true, nil
	}
	if id, ok := k.ids[name]; ok {
		return id, true, nil
	}
	err = q.QueryRowContext(ctx, `SELECT id FROM words WHERE word = ?`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err == nil {
		k.learn(id, name)
	}
	return id, err == nil, err
}

// id is the id of a name, which gets one if it has none. It is called in a
// transaction: where that is not committed, the words must be forgotten.
func (k *words) id(ctx context.Context, tx *sql.Tx, name string) (int64, error) {
	id, ok, err := k.find(ctx, tx, name)
	if ok || err != nil {
		return id, err
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO words (word) VALUES (?)`, name)
	if err != nil {
		return 0, err
	}
	if id, err = r.LastInsertId(); err == nil {
		k.learn(id, name)
	}
	return id, err
}
