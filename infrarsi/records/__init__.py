"""The nouns: frozen records that every other room passes along. They import nothing of ours."""
