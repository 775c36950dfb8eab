package readstore

func runChild() bool { return false }
