package simgpu

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Demo is a machine on which everything worth showing happens within a few minutes: a training process that leaks, a healthy
// sawtooth, a data-parallel job that reports its allocator, a notebook on its card, a killed process whose memory stays, a card in slices.
func Demo() *Machine {
	cards := []watch.Card{
		card(0, "NVIDIA H100 80GB HBM3", 80*units.GiB), card(1, "NVIDIA H100 80GB HBM3", 80*units.GiB),
		card(2, "NVIDIA H100 80GB HBM3", 80*units.GiB),
		slice(3, 1, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40*units.GiB), slice(3, 2, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10*units.GiB),
	}
	cards[0].Utilization, cards[1].Utilization, cards[2].Utilization = 97, 88, 91
	cards[0].Temperature, cards[1].Temperature, cards[2].Temperature = 64, 61, 66
	return New(cards, []Process{
		{PID: 41873, Card: 0, Law: Leak(52*units.GiB, 1500*units.MiB, 20*units.MiB), Who: rank("python train.py", "mira", 0, 2)},
		{PID: 41874, Card: 1, Law: Sawtooth(38*units.GiB, 61*units.GiB, 45), Who: rank("python train.py", "mira", 1, 2)},
		{PID: 50211, Card: 2, Law: Warmup(54*units.GiB, 20), Who: person("python finetune.py", "jonas"), Torch: torchOf(31)},
		{PID: 38120, Card: 2, Law: Constant(6400 * units.MiB), Who: person("python -m ipykernel_launcher", "ada")},
		{PID: 29004, Card: 1, Law: Constant(9 * units.GiB), Who: person("python eval.py", "ada"), Dies: 25, Leaves: 9 * units.GiB},
		{PID: 61733, Card: 3, Law: Constant(22 * units.GiB), Who: watch.Identity{
			Command: "vllm serve", User: "svc-infer", Container: "9f2c41d07ab3", Pod: "4b1f6c1e-5d0a-4a7f-9d53-0f1d2b7c8e90", Rank: -1, Started: 61733,
		}},
		{PID: 7781, Card: 4, NoAmount: true, Law: Constant(3 * units.GiB), Who: watch.Identity{
			Rank: -1, Hidden: "PID of another PID namespace; start this container with --pid=host",
		}},
	})
}

// torchOf reports a training process that uses a share of what it holds and makes a step every so many tenths of a second.
func torchOf(tenths float64) func(float64, units.Bytes) *watch.TorchStatus {
	return func(age float64, held units.Bytes) *watch.TorchStatus {
		context := min(held, 520*units.MiB)
		reserved := held - context
		phases := []string{"forward", "backward", "optimizer"}
		return &watch.TorchStatus{
			Allocated: reserved * 7 / 10, Reserved: reserved, PeakAllocated: reserved * 9 / 10,
			Step: int(age * 10 / tenths), Phase: phases[int(age)%len(phases)],
		}
	}
}

// Fleet is a machine of the given size for benchmarks: every process has a law of its own, a tenth of them leak.
func Fleet(cards, processes int) *Machine {
	var all []watch.Card
	for i := range cards {
		all = append(all, card(i, "NVIDIA H100 80GB HBM3", 80*units.GiB))
	}
	var script []Process
	for i := range processes {
		size := units.Bytes(512+i%7*256) * units.MiB
		laws := []Law{Constant(size), Sawtooth(size/2, size, 20+float64(i%13)), Warmup(size, 30)}
		law := laws[i%len(laws)]
		if i%10 == 0 {
			law = Leak(size, 50*units.MiB, 20*units.MiB)
		}
		script = append(script, Process{PID: 1000 + i, Card: i % cards, Law: law, Who: rank("python train.py", fmt.Sprintf("user%d", i%9), i, processes)})
	}
	return New(all, script)
}

func card(index int, name string, total units.Bytes) watch.Card {
	return watch.Card{
		ID: fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", 0x5ca1ab1e+index, index), Index: index, Instance: -1, Name: name,
		Total: total, Reserved: total / 128, Used: 2 * units.MiB, Utilization: -1, Temperature: -1,
	}
}

func slice(index, instance int, name string, total units.Bytes) watch.Card {
	c := card(index, name, total)
	c.ID = fmt.Sprintf("MIG-%08x-0000-5000-8000-%012x", 0x5ca1ab1e+index, instance)
	c.Instance = instance
	return c
}

func person(command, user string) watch.Identity {
	return watch.Identity{Command: command, User: user, Rank: -1, Started: int64(len(command)) + 7}
}

func rank(command, user string, rank, world int) watch.Identity {
	id := person(command, user)
	id.Rank, id.World, id.Job = rank, world, "88123"
	return id
}
