package bus

import (
	"context"
	"errors"
)

// errAllSeen ends a watch that has yielded what there was.
var errAllSeen = errors.New("all cells were seen")

// Each calls yield for each cell of a bucket that exists now. It returns once all were
// seen, or with the error of the watch: ErrUnavailable, or ctx's.
func Each(ctx context.Context, c Cells, bucket string, yield func(Cell)) error {
	return EachBelow(ctx, c, bucket, "", yield)
}

// EachBelow is Each for the cells whose keys begin with prefix.
func EachBelow(ctx context.Context, c Cells, bucket, prefix string, yield func(Cell)) error {
	err := c.Watch(ctx, bucket, prefix, func(cell Cell) error {
		if cell.Key == "" {
			return errAllSeen
		}
		if cell.Value != nil {
			yield(cell)
		}
		return nil
	})
	if errors.Is(err, errAllSeen) {
		return nil
	}
	return err
}
