"""The likelihood of private statistics, learnt: a density that can be evaluated, drawn from, maximised and turned into posteriors."""
