# Lines of modules.dep → the files of the wanted modules and of all they need.
# wanted: names, or folders as in modules.dep.
{
	file = $1
	sub(/:$/, "", file)
	$1 = ""
	needs[file] = $0
	name = file
	sub(/.*\//, "", name)
	sub(/\.ko.*/, "", name)
	gsub(/-/, "_", name)
	files[name] = file
}

# modules.dep names a module's needs in full, so there is nothing to follow.
function take(file,   all, n, i) {
	if (file in taken)
		return
	taken[file] = 1
	print file
	n = split(needs[file], all, " ")
	for (i = 1; i <= n; i++)
		take(all[i])
}

END {
	count = split(wanted, words, " ")
	for (w = 1; w <= count; w++) {
		word = words[w]
		if (word ~ /\//) {
			for (file in needs)
				if (index(file, word "/") == 1)
					take(file)
			continue
		}
		gsub(/-/, "_", word)
		# What is built in is in no list.
		if (word in files)
			take(files[word])
	}
}
