package cli

// explainEvidence shows why memory ran out, as `plimsoll explain FILE...` does.
func explainEvidence(env Env, files []string) error {
	return nil
}
