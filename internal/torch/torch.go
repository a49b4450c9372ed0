// Package torch says what PyTorch is: its releases and what changed in them, its optimizers, number types, precisions and phases of a training step.
//
// Every fact stands here once, in a table; other packages ask. A release is written as a name (V2_11), an optimizer, a precision or a number type as a word
// that this package knows. It takes words and returns facts, or an error that names the nearest known word. Nothing else in the code spells such a name (a test
// checks it).
package torch
