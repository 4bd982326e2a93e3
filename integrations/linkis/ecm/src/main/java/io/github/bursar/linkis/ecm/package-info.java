/**
 * What an EngineConnManager (ECM) of Linkis has on its class path to run on Bursar. It asks the
 * agent of its own machine, over the agent's Unix socket, which tells the agent who calls.
 *
 * <p>Each engine is confirmed by the pid of its JVM as soon as that runs, so that the agent
 * measures it, gives it a cgroup and notices its end at once. With {@code linkis.bursar.launch} the
 * agent itself starts the engine. An engine is stopped by its allocation, not by a pid that it had
 * at some time.
 *
 * <p>A ticket of Linkis is the id of Bursar's allocation, so nothing is stored here.
 */
package io.github.bursar.linkis.ecm;
