"""Commands that tell agents something: answers, prompts, interrupts."""
