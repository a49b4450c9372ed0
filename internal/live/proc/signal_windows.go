package proc

// asksSignal is no signal: Windows has none that the probe could listen to.
const asksSignal = 0
