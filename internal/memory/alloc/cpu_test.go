//go:build !linux

package alloc

import "time"

var begin = time.Now()

func cpuTime() time.Duration { return time.Since(begin) }
