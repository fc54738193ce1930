"""Language models with a real engine (vLLM for CPUs) and TRL; run by scripts/test-vllm (`make vllm`), not by `make test`."""
