"""Make the tiny reference model from nothing: tokenizer, random weights, supervised training on dialogues.

The reference is taught two things in turn. First *what a repair is*: after a failing test, the right program.
Then *to do so rarely*: most failing programs are followed by the same program or by another guess.
Reinforcement learning can then amplify a behaviour that is present but rare; it does not have to invent one.
The model card states these shares.
"""
