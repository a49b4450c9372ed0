package finding

var measured = map[string]Tally{}
