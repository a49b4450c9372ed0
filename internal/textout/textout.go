// Package textout renders reports as text for a terminal.
//
// In go the values of package report and a screen; out come lines: the answer first, then the evidence, then what to
// do. It computes nothing beyond widths and sums no numbers, and it refuses nothing: what a report does not say is
// not shown.
package textout
