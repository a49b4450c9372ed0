package repair_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Ways to use results that were collected on the GPU. With each result moved to the CPU the first go on as they did; the others may raise
// "Expected all tensors to be on the same device", here or in whoever gets them.
var (
	harmlessUses = []string{
		"print(torch.cat(outs).mean().item())",
		"scores = torch.cat(outs, dim=0).cpu().numpy()",
		"np.save('scores.npy', torch.stack(outs).cpu().numpy())",
		"print(len(outs))",
		"torch.save(torch.cat(outs), 'scores.pt')",
		"best = torch.cat(outs).argmax(1).tolist()",
		"outs = torch.cat(outs).cpu()",
	}
	deviceUses = []string{
		"loss = prior + torch.cat(outs)",
		"joined = torch.cat(outs, dim=0)\n    right = (joined.argmax(1) == targets).sum()",
		"value = metric(torch.cat(outs), targets)",
		"self.bank = torch.cat(outs)\n    self.bank = self.bank - mean",
		"for out in outs:\n        print(criterion(out, targets).item())",
		"parts = [out * weight for out in outs]",
		"table = torch.matmul(torch.cat(outs), weight)",
		"return torch.cat(outs, dim=0)",
	}
)

func TestNothingIsMovedThatMeetsAnotherDevice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var body []string
		for range rapid.IntRange(0, 2).Draw(t, "harmless") {
			body = append(body, rapid.SampledFrom(harmlessUses[:len(harmlessUses)-1]).Draw(t, "use"))
		}
		meets := rapid.Bool().Draw(t, "meets")
		if meets {
			body = append(body, rapid.SampledFrom(deviceUses).Draw(t, "device"))
		} else if rapid.Bool().Draw(t, "host") {
			body = append(body, harmlessUses[len(harmlessUses)-1])
		}
		src := "import numpy as np\nimport torch\n\n\ndef evaluate(self, model, loader, device, prior, targets, weight, mean):\n    outs = []\n    with torch.no_grad():\n        for x in loader:\n            outs.append(model(x.to(device)))\n"
		for _, line := range body {
			src += "    " + line + "\n"
		}
		moved, found := false, false
		for _, f := range checked([]byte(src)).Findings {
			if f.Rule == "LM002" {
				found, moved = true, f.Repair != nil || strings.Contains(f.Fix, "move each result as you collect it:")
			}
		}
		if !found || moved == meets {
			t.Fatalf("found %v, told to move %v, meets another device %v:\n%s", found, moved, meets, src)
		}
	})
}
