# Runs index_bench on a small table, in a directory that is not there yet.
file(REMOVE_RECURSE ${DIRECTORY})
execute_process(COMMAND ${PROGRAM} ${DIRECTORY} 3000 8 4 100 0.1 COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${DIRECTORY})
